/** Series of many tasks on one axis of time, and as three lines where there are too many to tell apart. Gaps stay gaps. */

import type { Schemas } from '@/api/client';

export type Series = Schemas['SeriesOut'];
type Values = readonly (number | null)[];

interface Folded {
  /** Seconds since 1970, ascending. */
  times: number[];
  lines: { label: string; values: (number | null)[] }[];
}

/** `task:<attempt>:<role>:<index>` as `<role>-<index>`. */
export function taskOf(subject: string): string {
  const parts = subject.split(':');
  return parts.length >= 4 ? `${parts.at(-2)}-${parts.at(-1)}` : subject;
}

export function sideBySide(series: readonly Series[]): Folded {
  const times = axisOf(series);
  return { times, lines: series.map((one) => ({ label: taskOf(one.subject), values: onAxis(times, one, one.values) })) };
}

export function merged(series: readonly Series[], names: { lowest: string; mean: string; highest: string }): Folded {
  const times = axisOf(series);
  const sums = new Float64Array(times.length);
  const counts = new Int32Array(times.length);
  const low = new Array<number | null>(times.length).fill(null);
  const high = new Array<number | null>(times.length).fill(null);
  const places = new Map(times.map((time, index) => [time, index]));
  for (const one of series) {
    one.times.forEach((text, slot) => {
      const at = places.get(secondsOf(text)) ?? 0;
      const value = one.values[slot];
      if (value === null || value === undefined) return;
      sums[at] = (sums[at] ?? 0) + value;
      counts[at] = (counts[at] ?? 0) + 1;
      const least = one.lows[slot] ?? value;
      const most = one.highs[slot] ?? value;
      low[at] = Math.min(low[at] ?? Infinity, least);
      high[at] = Math.max(high[at] ?? -Infinity, most);
    });
  }
  const mean = times.map((_time, index) => ((counts[index] ?? 0) > 0 ? (sums[index] ?? 0) / (counts[index] ?? 1) : null));
  return { times, lines: [{ label: names.lowest, values: low }, { label: names.mean, values: mean }, { label: names.highest, values: high }] };
}

/** For how many seconds up to the end every value of every task was below a bound; 0 where nothing was measured. */
export function secondsBelow(series: readonly Series[], bound: number): number {
  const { times, lines } = sideBySide(series);
  let from: number | null = null;
  for (let index = times.length - 1; index >= 0; index -= 1) {
    const values = lines.map((line) => line.values[index]).filter((value): value is number => typeof value === 'number');
    if (values.some((value) => value >= bound)) break;
    if (values.length > 0) from = times[index] ?? null;
  }
  return from === null ? 0 : (times.at(-1) ?? from) - from;
}

function axisOf(series: readonly Series[]): number[] {
  const times = new Set<number>();
  for (const one of series) for (const text of one.times) times.add(secondsOf(text));
  return [...times].sort((a, b) => a - b);
}

function onAxis(times: readonly number[], one: Series, values: Values): (number | null)[] {
  const found = new Map(one.times.map((text, index) => [secondsOf(text), values[index] ?? null]));
  return times.map((time) => found.get(time) ?? null);
}

function secondsOf(text: string): number {
  return Date.parse(text) / 1000;
}
