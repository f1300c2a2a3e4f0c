/** Where lines stand, and which line is at a height. */

import { describe, expect, it } from 'vitest';

import { PLAIN } from './ansi';
import { isError } from './errors';
import { layoutOf, ROW_PX, SHOWN_CHARS } from './layout';
import type { Line } from './lines';

const line = (text: string, id = 0): Line => ({ id, role: 'w', index: 0, stream: 'stdout', at: 'T', text, style: PLAIN, missing: null, isOpen: false, isCut: false });
const NONE: ReadonlySet<number> = new Set();
/** How many rows each text takes. */
const rows = (columns: number, ...texts: string[]) => {
  const layout = layoutOf(texts.map((text, id) => line(text, id)), columns, NONE);
  return texts.map((_, index) => (layout.top(index + 1) - layout.top(index)) / ROW_PX);
};

describe('lines of one height', () => {
  const layout = layoutOf([line('a'), line('b'), line('c')], null, NONE);
  it('stand one below the other', () => {
    expect([layout.total, layout.top(2)]).toEqual([3 * ROW_PX, 2 * ROW_PX]);
  });
  it('are found by a height, also by one that is outside', () => {
    expect([-500, 0, ROW_PX - 1, ROW_PX, 10_000].map(layout.at)).toEqual([0, 0, 0, 1, 2]);
  });
  it('are none in an empty log', () => {
    const empty = layoutOf([], null, NONE);
    expect([empty.total, empty.at(100)]).toEqual([0, 0]);
  });
});

describe('wrapped lines', () => {
  it('take as many rows as their letters need, and an empty one takes one', () => {
    expect(rows(10, '', 'x'.repeat(10), 'x'.repeat(11), 'x'.repeat(35))).toEqual([1, 1, 2, 4]);
  });
  it('count Chinese letters and signs of two columns twice, and tabs up to the next stop', () => {
    expect(rows(10, '汉'.repeat(5), '汉'.repeat(6), '🚀'.repeat(5), 'a\tb\t')).toEqual([1, 2, 1, 2]);
  });
  it('do not count signs of colours', () => {
    expect(rows(10, `\x1b[31m${'x'.repeat(10)}\x1b[0m`)).toEqual([1]);
  });
  it('are cut where they are long, until somebody asks for all of one', () => {
    const long = line('x'.repeat(SHOWN_CHARS * 3), 7);
    expect(layoutOf([long], 100, NONE).total).toBe((SHOWN_CHARS / 100) * ROW_PX);
    expect(layoutOf([long], 100, new Set([7])).total).toBe(((SHOWN_CHARS * 3) / 100) * ROW_PX);
  });
  it('are measured anew when they have grown', () => {
    const grows = line('x'.repeat(10));
    expect(layoutOf([grows], 10, NONE).total).toBe(ROW_PX);
    grows.text += 'y';
    expect(layoutOf([grows], 10, NONE).total).toBe(2 * ROW_PX);
  });
  it('are found by any height inside of them', () => {
    const layout = layoutOf([line('a'), line('x'.repeat(30)), line('b')], 10, NONE);
    expect([0, 1, 2, 3, 4, 9].map((row) => layout.at(row * ROW_PX))).toEqual([0, 1, 1, 1, 2, 2]);
  });
});

describe('a line that tells of an error', () => {
  it.each([
    'Traceback (most recent call last):',
    'ValueError: bad shape',
    'torch.cuda.OutOfMemoryError: tried to allocate',
    "thread 'main' panicked at src/main.rs",
    '2026-11-22 10:00:00 ERROR worker lost',
    '[FATAL] cannot bind',
    'error: unknown option',
    'RuntimeError: CUDA error: device-side assert',
    'bash: line 1: trainn: command not found',
    'Segmentation fault (core dumped)',
    'node0: NCCL WARN Call to connect failed',
  ])('is seen: %s', (text) => expect(isError(text)).toBe(true));

  it.each(['', 'step 10 loss 0.3', '0 errors found', 'ERRORS=0', 'errored_steps: 0', 'PANICKED', 'the errorbar is small', 'INFO no ERRORS'])('is not seen in: %j', (text) => expect(isError(text)).toBe(false));

  it('is looked for in the beginning of a long line alone', () => {
    expect(isError(`${'x '.repeat(2_000)} ERROR `)).toBe(false);
  });
});
