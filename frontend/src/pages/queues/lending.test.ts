/** Who lends to whom. */

import { describe, expect, it } from 'vitest';

import type { Queue, QueuePool } from '@/api/fleet';

import { lenders, standing, tree } from './lending';
import { sumUp } from './reads';

const amounts = (gpu: number) => ({ cpu_millis: 0, memory_bytes: 0, gpu_millis: gpu });
const limits = (used: number, guarantee: number, deserved: number | null): QueuePool => ({
  pool: { id: 'p', name: 'a100', cluster: 'local' },
  used: amounts(used),
  guarantee: amounts(guarantee),
  deserved: { cpu_millis: null, memory_bytes: null, gpu_millis: deserved },
  ceiling: { cpu_millis: null, memory_bytes: null, gpu_millis: null },
  effective_ceiling: { cpu_millis: null, memory_bytes: null, gpu_millis: null },
  headroom: { cpu_millis: null, memory_bytes: null, gpu_millis: null },
  weight: amounts(1),
});
const queue = (id: string, parent: string | null, pools: QueuePool[]): Queue => ({ id, name: id, path: id, parent_id: parent, is_top: parent === 'root', tenant: { id, slug: id, name: id }, pools, version: 1 });

describe('standing', () => {
  it('splits what is used into promise, deserved and borrowed', () => {
    expect(standing(limits(7, 2, 5), 'gpu_millis')).toMatchObject({ guaranteed: 2, owed: 3, borrowed: 2, lends: 0 });
  });
  it('never lends a guarantee', () => {
    expect(standing(limits(0, 2, 5), 'gpu_millis')).toMatchObject({ guaranteed: 0, owed: 0, borrowed: 0, lends: 3 });
  });
  it('borrows nothing where nothing is promised', () => {
    expect(standing(limits(4, 0, null), 'gpu_millis')).toMatchObject({ borrowed: 0, owed: 4, isPromised: false, lends: 0 });
  });
});

it('names siblings with something to spare, the most first', () => {
  const all = [queue('a', 'root', [limits(9, 0, null)]), queue('b', 'root', [limits(1, 0, 3)]), queue('c', 'root', [limits(0, 0, 6)]), queue('d', 'b', [limits(0, 0, 8)])];
  expect(lenders(all, all[0] as Queue, 'p', 'gpu_millis').map((lender) => [lender.queue.id, lender.lends])).toEqual([
    ['c', 6],
    ['b', 2],
  ]);
});

it('puts children below their parents', () => {
  const all = [queue('b', 'root', []), queue('b/x', 'b', []), queue('a', 'root', [])];
  expect(tree(all).map((row) => [row.queue.id, row.depth])).toEqual([
    ['a', 0],
    ['b', 0],
    ['b/x', 1],
  ]);
});

it('counts jobs at their queue and above it', () => {
  const queues = [
    { id: 'root', parent_id: null },
    { id: 'a', parent_id: 'root' },
    { id: 'b', parent_id: 'a' },
  ];
  const found = sumUp(queues, [
    { queue_id: 'b', states: { queued: 2, running: 1 } },
    { queue_id: 'a', states: { starting: 1 } },
  ]);
  expect([...found]).toEqual([
    ['b', { running: 1, waiting: 2 }],
    ['a', { running: 2, waiting: 2 }],
    ['root', { running: 2, waiting: 2 }],
  ]);
});
