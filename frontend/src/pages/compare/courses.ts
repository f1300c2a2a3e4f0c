/**
 * What two runs used, on one axis: seconds since each began.
 *
 * Their samples fall on different moments, so both are put into slots as wide as the coarser of the two; a slot without a sample stays
 * empty and is a gap. Tasks of a run are one line: what adds up is added (cores, memory), what is a share or a degree is its mean.
 */

import type { Series } from '@/pages/job/metrics/fold';
import { METRICS, type MetricName } from '@/pages/job/metrics/units';

export interface Run {
  /** Milliseconds since 1970 at which the attempt began to run; null: its first sample counts. */
  startedAt: number | null;
  series: readonly Series[];
}

export interface Course {
  metric: MetricName;
  /** Seconds since the start, ascending and evenly spaced. */
  times: number[];
  /** One line for each run, in their order; null where that slot has no sample. */
  lines: (number | null)[][];
}

const ADD_UP: ReadonlySet<MetricName> = new Set(['cpu_millis', 'memory_bytes', 'gpu_memory_bytes', 'gpu_power_watts', 'disk_read_bytes_per_second', 'disk_write_bytes_per_second', 'processes']);
const SLOTS_MAX = 600; // As many as a chart has pixels for.

/** One course for each metric that either run was measured by. */
export function coursesOf(runs: readonly Run[]): Course[] {
  return METRICS.flatMap((metric) => {
    const each = runs.map((run) => ({ began: beginOf(run), series: run.series.filter((series) => series.metric === metric) }));
    const samples = each.map(({ began, series }) => series.map((one) => samplesOf(one, began)));
    const last = Math.max(...samples.flat(2).map(([second]) => second), -1);
    if (last < 0) return [];
    const finest = Math.max(1, ...each.flatMap(({ series }) => series.map((one) => one.resolution_seconds)));
    const step = Math.max(finest, last / SLOTS_MAX);
    const count = Math.floor(last / step) + 1;
    return [{ metric, times: Array.from({ length: count }, (_, slot) => slot * step), lines: samples.map((tasks) => folded(tasks, step, count, ADD_UP.has(metric))) }];
  });
}

type Sample = readonly [second: number, value: number];

function beginOf(run: Run): number {
  if (run.startedAt !== null) return run.startedAt;
  const first = run.series.flatMap((series) => series.times.slice(0, 1)).map((time) => Date.parse(time));
  return first.length > 0 ? Math.min(...first) : 0;
}

/** What was measured before the program ran (its start) is no part of the run. */
function samplesOf(series: Series, began: number): Sample[] {
  return series.times.flatMap((time, index): Sample[] => {
    const value = series.values[index];
    const second = (Date.parse(time) - began) / 1000;
    return value === null || value === undefined || second < 0 ? [] : [[second, value]];
  });
}

function folded(tasks: readonly (readonly Sample[])[], step: number, count: number, addsUp: boolean): (number | null)[] {
  const sums = new Float64Array(count);
  const measured = new Int32Array(count);
  for (const samples of tasks) {
    const own = new Float64Array(count);
    const times = new Int32Array(count);
    for (const [second, value] of samples) {
      const slot = Math.min(count - 1, Math.floor(second / step));
      own[slot] = (own[slot] ?? 0) + value;
      times[slot] = (times[slot] ?? 0) + 1;
    }
    times.forEach((seen, slot) => {
      if (seen === 0) return;
      sums[slot] = (sums[slot] ?? 0) + (own[slot] ?? 0) / seen;
      measured[slot] = (measured[slot] ?? 0) + 1;
    });
  }
  return Array.from(sums, (sum, slot) => {
    const seen = measured[slot] ?? 0;
    return seen === 0 ? null : addsUp ? sum : sum / seen;
  });
}
