/** Two runs on one axis, two files line by line, and what differs. */

import { describe, expect, it } from 'vitest';

import type { Series } from '@/pages/job/metrics/fold';

import { coursesOf } from './courses';
import { pairsOf } from './pairs';

const series = (metric: string, index: number, from: number, values: (number | null)[], step = 10): Series => ({
  subject: `task:x:worker:${index}`,
  metric,
  unit: '',
  simulated: false,
  resolution_seconds: step,
  times: values.map((_value, at) => new Date((from + at * step) * 1000).toISOString()),
  values,
  lows: values,
  highs: values,
});

describe('the courses of two runs', () => {
  it('begin together although the runs began on different days', () => {
    const a = { startedAt: 1_000_000, series: [series('cpu_millis', 0, 1_003, [100, 200, 300])] };
    const b = { startedAt: 90_000_000, series: [series('cpu_millis', 0, 90_008, [1, null, 3])] };
    expect(coursesOf([a, b])).toEqual([{ metric: 'cpu_millis', times: [0, 10, 20], lines: [[100, 200, 300], [1, null, 3]] }]);
  });
  it('add up what tasks use, and take the mean of shares', () => {
    const tasks = (metric: string) => [series(metric, 0, 0, [0.2, 0.4]), series(metric, 1, 0, [0.6, null])];
    expect(coursesOf([{ startedAt: 0, series: tasks('cpu_millis') }])[0]?.lines).toEqual([[0.8, 0.4]]);
    expect(coursesOf([{ startedAt: 0, series: tasks('gpu_utilization_ratio') }])[0]?.lines).toEqual([[0.4, 0.4]]);
  });
  it('fall into slots of the coarser of both, and leave out what was before the start', () => {
    const fine = { startedAt: 10_000, series: [series('cpu_millis', 0, 5, [9, 2, 4, 6, 8], 5)] };
    const coarse = { startedAt: null, series: [series('cpu_millis', 0, 700, [1, 2], 10)] };
    expect(coursesOf([fine, coarse])).toEqual([{ metric: 'cpu_millis', times: [0, 10], lines: [[3, 7], [1, 2]] }]);
  });
  it('are none where nothing was measured', () => {
    expect(coursesOf([{ startedAt: null, series: [] }, { startedAt: 0, series: [series('cpu_millis', 0, 0, [null])] }])).toEqual([]);
  });
});

describe('two files line by line', () => {
  it('pair lines of the same key and leave a place for what only one has', () => {
    expect(pairsOf('a: 1\nb: 2\nc: 3\n', 'a: 1\nx: 0\nb: 5\nc: 3\nd: 4\n')).toEqual([
      { a: 'a: 1', b: 'a: 1', kind: 'same' },
      { a: null, b: 'x: 0', kind: 'only-b' },
      { a: 'b: 2', b: 'b: 5', kind: 'changed' },
      { a: 'c: 3', b: 'c: 3', kind: 'same' },
      { a: null, b: 'd: 4', kind: 'only-b' },
    ]);
  });
  it('never take one key for another', () => {
    expect(pairsOf('retry:\n  limit: 1', 'tags:\n  - second').map((pair) => pair.kind)).toEqual(['only-a', 'only-a', 'only-b', 'only-b']);
  });
  it('pair lines of a command', () => {
    expect(pairsOf('command: |\n  echo one\n  exit 1', 'command: |\n  echo two\n  exit 1').map((pair) => pair.kind)).toEqual(['same', 'changed', 'same']);
  });
});
