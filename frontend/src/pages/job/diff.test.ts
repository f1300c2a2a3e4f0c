/** Which lines and which keys differ. */

import { describe, expect, it } from 'vitest';

import { changedParts } from '@/api/rerun';

import { diffLines } from './diff';

const shown = (older: string, newer: string) => diffLines(older, newer).map((line) => ({ same: ' ', old: '-', new: '+' })[line.kind] + line.text);

describe('differences', () => {
  it('shows what went and what came among what stayed', () => {
    expect(shown('a\nb\nc\n', 'a\nx\nc\nd\n')).toEqual([' a', '-b', '+x', ' c', '+d']);
    expect(shown('a\n', 'a\n')).toEqual([' a']);
    expect(shown('a\nb\nc', 'c')).toEqual(['-a', '-b', ' c']);
  });

  it('names the keys of a spec that differ, whatever the order of their keys', () => {
    expect(changedParts({ name: 'a', env: { A: '1', B: '2' }, tags: [] }, { name: 'b', env: { B: '2', A: '1' } })).toEqual({ name: 'b', tags: null });
    expect(changedParts({ a: 1 }, { a: 1, b: { c: 2 } })).toEqual({ b: { c: 2 } });
  });
});
