/** Rows of the ledger, added up and laid out by day. */

import type { Schemas } from '@/api/client';
import { hours } from '@/text/costs';

/** Cost is shown where somebody set prices: one amount above nothing says so. */
export function hasCost(items: readonly { micros: number | null }[]): boolean {
  return items.some((item) => item.micros !== null && item.micros > 0);
}

export type Item = Schemas['UsageItem'];

export interface Sums {
  attempts: number;
  gpu: number;
  /** Of the GPU time, what was measured, and what of that was work. */
  measured: number;
  busy: number;
  cpu: number;
  memory: number;
  micros: number | null;
}

/** Null cost somewhere: what is not told cannot be added up. */
export function sum(items: readonly Item[]): Sums {
  return items.reduce<Sums>(
    (all, item) => ({
      attempts: all.attempts + item.attempts,
      gpu: all.gpu + item.gpu_milli_seconds,
      measured: all.measured + item.gpu_measured_milli_seconds,
      busy: all.busy + item.gpu_busy_milli_seconds,
      cpu: all.cpu + item.cpu_milli_seconds,
      memory: all.memory + item.memory_byte_seconds,
      micros: all.micros === null || item.micros === null ? null : all.micros + item.micros,
    }),
    { attempts: 0, gpu: 0, measured: 0, busy: 0, cpu: 0, memory: 0, micros: 0 },
  );
}

/** Which part of the time that was looked at GPUs worked; null where nobody looked, which is no idleness. */
export function busyShare({ measured, busy }: { measured: number; busy: number }): number | null {
  return measured > 0 ? busy / measured : null;
}

const DAY_MS = 86_400_000;

/** Every day of the window, two at least, so that a day without use is nothing and not left out. */
export function byDay(items: readonly Item[], since?: string): { times: number[]; gpu: number[]; busy: (number | null)[]; cpu: number[]; cost: (number | null)[] } {
  const days = new Map(items.map((item) => [item.id, item]));
  const stamps = [...days.keys()].map((day) => Date.parse(`${day}T00:00:00Z`)).filter((at) => !Number.isNaN(at));
  const times: number[] = [];
  const gpu: number[] = [];
  const busy: (number | null)[] = [];
  const cpu: number[] = [];
  const cost: (number | null)[] = [];
  const last = Math.max(...stamps);
  const first = Math.min(...stamps, last - DAY_MS, since ? Math.floor(Date.parse(since) / DAY_MS) * DAY_MS : last);
  for (let at = first; at <= last; at += DAY_MS) {
    const item = days.get(new Date(at).toISOString().slice(0, 10));
    times.push(at / 1000);
    gpu.push(item ? hours(item.gpu_milli_seconds) : 0);
    busy.push(item && item.gpu_milli_seconds > 0 && item.gpu_measured_milli_seconds === 0 ? null : hours(item?.gpu_busy_milli_seconds ?? 0));
    cpu.push(item ? hours(item.cpu_milli_seconds) : 0);
    cost.push(item ? (item.micros === null ? null : item.micros / 1e6) : 0);
  }
  return { times, gpu, busy, cpu, cost };
}
