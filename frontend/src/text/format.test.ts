import { describe, expect, it } from 'vitest';

import { makeFormat } from './format';

describe('numbers', () => {
  it('are written the same whether they take the short way or not', () => {
    for (const language of ['en', 'zh'] as const) {
      const format = makeFormat(language, 'UTC');
      const slow = new Intl.NumberFormat(language === 'zh' ? 'zh-CN' : 'en', { maximumFractionDigits: 1 });
      for (const value of [0, 1, -7, 42, 999, 1000, -1000, 1_234_567, 0.5, 12.25]) expect(format.number(value)).toBe(slow.format(value));
    }
  });

  it('keep what is little from looking like nothing', () => {
    const { number, milli } = makeFormat('en', 'UTC');
    expect(number(0.004)).toBe('0.004');
    expect(milli(1500)).toBe('1.5');
    expect(milli(8000)).toBe('8');
  });
});

describe('times', () => {
  const format = makeFormat('en', 'UTC');

  it('say their zone, and how long ago they were', () => {
    expect(format.zone).toBe('UTC');
    expect(format.ago('2026-11-22T09:00:00Z', Date.parse('2026-11-22T09:05:00Z'))).toBe('5 minutes ago');
    expect(format.time('2026-11-22T09:00:00Z')).toContain('09:00:00');
  });
});
