/** Two texts as rows of two lines: those that are the same beside each other, and those that differ paired as far as they go. */

import { diffLines, type DiffLine } from '@/pages/job/diff';

export interface Pair {
  /** Null where the other text has a line more. */
  a: string | null;
  b: string | null;
  kind: 'same' | 'changed' | 'only-a' | 'only-b';
}

export function pairsOf(a: string, b: string): Pair[] {
  const pairs: Pair[] = [];
  let older: string[] = [];
  let newer: string[] = [];
  const close = () => {
    for (const line of older) {
      // Two lines are one that changed where they say the same key; what stood between is only in B.
      const at = newer.findIndex((other) => keyOf(other) === keyOf(line));
      if (at === -1) pairs.push({ a: line, b: null, kind: 'only-a' });
      else {
        pairs.push(...newer.slice(0, at).map(onlyB), { a: line, b: newer[at] ?? '', kind: 'changed' });
        newer = newer.slice(at + 1);
      }
    }
    pairs.push(...newer.map(onlyB));
    older = [];
    newer = [];
  };
  for (const line of diffLines(a, b)) {
    if (line.kind === 'old') older.push(line.text);
    else if (line.kind === 'new') newer.push(line.text);
    else {
      close();
      pairs.push(same(line));
    }
  }
  close();
  return pairs;
}

function onlyB(text: string): Pair {
  return { a: null, b: text, kind: 'only-b' };
}

/** The key of a line of YAML with its depth; the sign of an entry of a list; empty for a line of a longer text. */
function keyOf(line: string): string {
  return /^(\s*(?:- )?[\w."'-]+:|\s*-)(?:\s|$)/.exec(line)?.[1] ?? '';
}

function same(line: DiffLine): Pair {
  return { a: line.text, b: line.text, kind: 'same' };
}
