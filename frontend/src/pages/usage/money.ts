/** Amounts of the ledger as people read them: milli-unit-seconds as hours, millionths as money. */

import type { Schemas } from '@/api/client';
import type { Format } from '@/text/format';

const MILLI_SECONDS_PER_HOUR = 3_600_000;
const GIB_SECONDS_PER_HOUR = 1024 ** 3 * 3600;

export function hours(milliSeconds: number): number {
  return milliSeconds / MILLI_SECONDS_PER_HOUR;
}

export function gibHours(byteSeconds: number): number {
  return byteSeconds / GIB_SECONDS_PER_HOUR;
}

export function sayHours(format: Format, milliSeconds: number): string {
  const value = hours(milliSeconds);
  return format.number(value, value !== 0 && Math.abs(value) < 10 ? 3 : 1);
}

export function sayMoney(format: Format, micros: number, currency: string): string {
  const value = micros / 1e6;
  return `${format.number(value, value !== 0 && Math.abs(value) < 1 ? 4 : 2)} ${currency}`;
}

/** Cost is shown where somebody set prices: one amount above nothing says so. */
export function hasCost(items: readonly { micros: number | null }[]): boolean {
  return items.some((item) => item.micros !== null && item.micros > 0);
}

export type Item = Schemas['UsageItem'];

export interface Sums {
  attempts: number;
  gpu: number;
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
      cpu: all.cpu + item.cpu_milli_seconds,
      memory: all.memory + item.memory_byte_seconds,
      micros: all.micros === null || item.micros === null ? null : all.micros + item.micros,
    }),
    { attempts: 0, gpu: 0, cpu: 0, memory: 0, micros: 0 },
  );
}

const DAY_MS = 86_400_000;

/** Every day of the window, two at least, so that a day without use is nothing and not left out. */
export function byDay(items: readonly Item[], since?: string): { times: number[]; gpu: number[]; cpu: number[]; cost: (number | null)[] } {
  const days = new Map(items.map((item) => [item.id, item]));
  const stamps = [...days.keys()].map((day) => Date.parse(`${day}T00:00:00Z`)).filter((at) => !Number.isNaN(at));
  const times: number[] = [];
  const gpu: number[] = [];
  const cpu: number[] = [];
  const cost: (number | null)[] = [];
  const last = Math.max(...stamps);
  const first = Math.min(...stamps, last - DAY_MS, since ? Math.floor(Date.parse(since) / DAY_MS) * DAY_MS : last);
  for (let at = first; at <= last; at += DAY_MS) {
    const item = days.get(new Date(at).toISOString().slice(0, 10));
    times.push(at / 1000);
    gpu.push(item ? hours(item.gpu_milli_seconds) : 0);
    cpu.push(item ? hours(item.cpu_milli_seconds) : 0);
    cost.push(item ? (item.micros === null ? null : item.micros / 1e6) : 0);
  }
  return { times, gpu, cpu, cost };
}
