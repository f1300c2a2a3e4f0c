// @vitest-environment node
import { describe, expect, it } from 'vitest';

import { archive } from './packing';

async function bytesOf(files: Record<string, string>): Promise<Uint8Array> {
  const found = Object.entries(files).map(([path, content]) => ({ path, file: new File([content], path) }));
  const pieces: number[] = [];
  for await (const piece of archive(found, new AbortController().signal, () => undefined)) pieces.push(...piece);
  return Uint8Array.from(pieces);
}

const words = (bytes: Uint8Array, from: number, to: number) => new TextDecoder().decode(bytes.subarray(from, to)).replace(/\0.*$/s, '');

describe('an archive', () => {
  it('has a header, the content and its padding for each file, and two empty blocks at the end', async () => {
    const bytes = await bytesOf({ 'a/b.txt': 'hello', 'run.sh': '#!/bin/sh\n' });
    expect(bytes.length).toBe(512 * 6);
    expect(words(bytes, 0, 100)).toBe('a/b.txt');
    expect(words(bytes, 100, 108)).toBe('0000644');
    expect(words(bytes, 124, 136)).toBe('00000000005');
    expect(words(bytes, 257, 263)).toBe('ustar');
    expect(words(bytes, 512, 517)).toBe('hello');
    expect(words(bytes, 1024 + 100, 1024 + 108)).toBe('0000755');
    const sum = bytes.subarray(0, 512).reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0);
    expect(Number.parseInt(words(bytes, 148, 156), 8)).toBe(sum);
  });

  it('keeps names that are long or not ASCII', async () => {
    const name = `${'数据/'.repeat(20)}x.txt`;
    const bytes = await bytesOf({ [name]: '' });
    const record = words(bytes, 512, 1024);
    expect(words(bytes, 156, 157)).toBe('x');
    expect(record).toMatch(/^\d+ path=数据/);
    expect(Number(record.split(' ')[0])).toBe(new TextEncoder().encode(record).length);
  });

  it('is the same for the same content', async () => {
    expect(await bytesOf({ a: '1', b: '2' })).toEqual(await bytesOf({ a: '1', b: '2' }));
  });
});
