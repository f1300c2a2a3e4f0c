/** Our digest against known ones. */

import { createHash } from 'node:crypto';

import { describe, expect, it } from 'vitest';

import { Sha256 } from './sha256';

const bytes = (length: number) => Uint8Array.from({ length }, (_, index) => (index * 131 + 7) & 255);
const expected = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');

describe('SHA-256', () => {
  it.each([0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000, 100_003])('of %i bytes', (length) => {
    expect(new Sha256().update(bytes(length)).hex()).toBe(expected(bytes(length)));
  });
  it('does not depend on the pieces', () => {
    const data = bytes(5_000);
    const sha = new Sha256();
    for (let at = 0, size = 1; at < data.length; at += size, size = (size * 7) % 191 || 1) sha.update(data.subarray(at, at + size));
    expect(sha.hex()).toBe(expected(data));
  });
});
