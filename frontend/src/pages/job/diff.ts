/** Which lines differ between two texts. */

export interface DiffLine {
  kind: 'same' | 'old' | 'new';
  text: string;
}

const CELLS_MAX = 4_000_000; // Two texts of 2,000 lines; beyond that one block replaces another.

export function diffLines(older: string, newer: string): DiffLine[] {
  const a = older.replace(/\n$/, '').split('\n');
  const b = newer.replace(/\n$/, '').split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const same = (lines: string[]): DiffLine[] => lines.map((text) => ({ kind: 'same', text }));
  return [...same(a.slice(0, head)), ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)), ...same(a.slice(a.length - tail))];
}

function middle(a: string[], b: string[]): DiffLine[] {
  const old = (text: string): DiffLine => ({ kind: 'old', text });
  const fresh = (text: string): DiffLine => ({ kind: 'new', text });
  if (a.length * b.length > CELLS_MAX) return [...a.map(old), ...b.map(fresh)];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width); // Longest common part of what is left.
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = a[i] === b[j] ? at(lengths, (i + 1) * width + j + 1) + 1 : Math.max(at(lengths, (i + 1) * width + j), at(lengths, i * width + j + 1));
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i] ?? '' });
      i += 1;
      j += 1;
    } else if (at(lengths, (i + 1) * width + j) >= at(lengths, i * width + j + 1)) lines.push(old(a[i++] ?? ''));
    else lines.push(fresh(b[j++] ?? ''));
  }
  return [...lines, ...a.slice(i).map(old), ...b.slice(j).map(fresh)];
}

function at(lengths: Uint32Array, index: number): number {
  return lengths[index] ?? 0;
}
