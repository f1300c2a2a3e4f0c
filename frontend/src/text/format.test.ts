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

  it('say how long ago they were', () => {
    expect(format.ago('2026-11-22T09:00:00Z', Date.parse('2026-11-22T09:05:00Z'))).toBe('5 minutes ago');
    expect(format.time('2026-11-22T09:00:00Z')).toContain('09:00:00');
  });

  it.each([
    ['en', '2027-01-10T12:00:00Z', 'Jan 10, 2027, 13:00:00 GMT+1'],
    ['en', '2027-07-10T12:00:00Z', 'Jul 10, 2027, 14:00:00 GMT+2'],
    ['en', '2027-10-31T00:30:00Z', 'Oct 31, 2027, 02:30:00 GMT+2'],
    ['en', '2027-10-31T01:30:00Z', 'Oct 31, 2027, 02:30:00 GMT+1'],
    ['zh', '2027-10-31T00:30:00Z', '2027年10月31日 GMT+2 02:30:00'],
    ['zh', '2027-10-31T01:30:00Z', '2027年10月31日 GMT+1 02:30:00'],
  ] as const)('with their zone say how far it is from UTC then, in %s at %s', (language, iso, text) => expect(makeFormat(language, 'Europe/Berlin').timeWithZone(iso)).toBe(text));
});
