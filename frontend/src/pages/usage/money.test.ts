/** Sums and days of the ledger. */

import { expect, it } from 'vitest';

import { busyShare, byDay, hasCost, sum, type Item } from './money';

const item = (id: string, gpu: number, micros: number | null): Item => ({ id, name: id, attempts: 1, cpu_milli_seconds: 0, memory_byte_seconds: 0, gpu_milli_seconds: gpu, gpu_measured_milli_seconds: 0, gpu_busy_milli_seconds: 0, micros });

it('fills days without use', () => {
  const { times, gpu } = byDay([item('2026-11-03', 7_200_000, 5), item('2026-11-01', 3_600_000, 5)]);
  expect(gpu).toEqual([1, 0, 2]);
  expect(times).toHaveLength(3);
  expect(byDay([item('2026-11-03', 0, 0)]).times).toHaveLength(2);
  expect(byDay([item('2026-11-03', 0, 0)], '2026-10-31T22:00:00Z').times).toHaveLength(4);
});

it('tells idle GPUs from GPUs that nobody looked at', () => {
  const seen = { ...item('2026-11-03', 7_200_000, 5), gpu_measured_milli_seconds: 3_600_000, gpu_busy_milli_seconds: 1_800_000 };
  const all = sum([seen, item('2026-11-01', 3_600_000, 5)]);
  expect(all).toMatchObject({ gpu: 10_800_000, measured: 3_600_000, busy: 1_800_000 });
  expect(busyShare(all)).toBe(0.5);
  expect(busyShare(sum([item('a', 1, 5)]))).toBeNull();
  expect(byDay([seen, item('2026-11-01', 3_600_000, 5)]).busy).toEqual([null, 0, 0.5]);
});

it('does not add up what it is not told', () => {
  expect(sum([item('a', 1, 5), item('b', 2, null)])).toMatchObject({ gpu: 3, micros: null });
  expect(hasCost([item('a', 1, 0), item('b', 1, null)])).toBe(false);
});
