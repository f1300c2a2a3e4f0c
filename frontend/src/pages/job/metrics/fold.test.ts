/** Many tasks folded into three lines. */

import { describe, expect, it } from 'vitest';

import { merged, secondsBelow, sideBySide, type Series } from './fold';

const at = (second: number) => new Date(second * 1000).toISOString();
const series = (index: number, times: number[], values: (number | null)[]): Series => ({
  subject: `task:a:worker:${index}`,
  metric: 'cpu_millis',
  unit: '',
  simulated: false,
  resolution_seconds: 10,
  times: times.map(at),
  values,
  lows: values,
  highs: values.map((value) => (value === null ? null : value + 1)),
});

describe('series of tasks', () => {
  it('come on one axis with gaps left open', () => {
    expect(sideBySide([series(0, [10, 20], [1, null]), series(1, [20, 30], [5, 6])])).toEqual({
      times: [10, 20, 30],
      lines: [
        { label: 'worker-0', values: [1, null, null] },
        { label: 'worker-1', values: [null, 5, 6] },
      ],
    });
  });

  it('fold to lowest, mean and highest of what was measured', () => {
    const { times, lines } = merged([series(0, [10, 20, 30], [1, 2, null]), series(1, [10, 20, 30], [3, null, null])], { lowest: 'l', mean: 'm', highest: 'h' });
    expect(times).toEqual([10, 20, 30]);
    expect(lines.map((line) => line.values)).toEqual([[1, 2, null], [2, 2, null], [4, 3, null]]);
  });

  it('tell for how long nothing was in use', () => {
    expect(secondsBelow([series(0, [10, 20, 30, 40], [0.9, 0.01, null, 0.02])], 0.05)).toBe(20);
    expect(secondsBelow([series(0, [10, 20], [0, 0.5])], 0.05)).toBe(0);
    expect(secondsBelow([], 0.05)).toBe(0);
  });
});
