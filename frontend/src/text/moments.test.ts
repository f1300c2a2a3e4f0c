import { describe, expect, it } from 'vitest';

import { makeFormat } from './format';
import { localized } from './moments';

describe('times in the sentences of the server', () => {
  const text = 'Reserved from 2026-11-23 23:05 UTC until 2026-11-24 01:00 UTC.';

  it('are read in the zone of the reader', () => {
    expect(localized(text, makeFormat('en', 'Asia/Shanghai'))).toBe('Reserved from Nov 24, 2026, 07:05 until Nov 24, 2026, 09:00.');
    expect(localized(text, makeFormat('en', 'UTC'))).toBe('Reserved from Nov 23, 2026, 23:05 until Nov 24, 2026, 01:00.');
  });

  it('leave all else as it is', () => {
    expect(localized('At 12:00 nothing happens.', makeFormat('en', 'UTC'))).toBe('At 12:00 nothing happens.');
  });
});
