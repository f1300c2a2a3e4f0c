/** What was typed, as changes. */

import { expect, test } from 'vitest';

import { cellKey, changesOf, unreadable, type Queue } from './draft';

const amounts = { cpu_millis: 0, memory_bytes: 0, gpu_millis: 0 };
const none = { cpu_millis: null, memory_bytes: null, gpu_millis: null };
const queue = {
  id: 'q',
  name: 'q',
  path: 'root/q',
  is_top: true,
  parent_id: 'r',
  tenant: null,
  version: 1,
  pools: [{ pool: { id: 'p', name: 'a100', cluster: 'local' }, used: amounts, guarantee: { ...amounts, gpu_millis: 2000 }, deserved: none, ceiling: { ...none, gpu_millis: 8000 }, effective_ceiling: none, headroom: none, weight: { cpu_millis: 1, memory_bytes: 1, gpu_millis: 1 } }],
} satisfies Queue;

test('only what differs becomes a change, and an emptied ceiling is none', () => {
  const draft = { [cellKey('q', 'p', 'gpu_millis', 'guarantee')]: '2.0', [cellKey('q', 'p', 'gpu_millis', 'ceiling')]: '', [cellKey('q', 'p', 'memory_bytes', 'guarantee')]: '1.5' };
  expect(changesOf([queue], draft)).toEqual([
    { queue: 'q', pool: 'p', resource: 'gpu_millis', ceiling: null },
    { queue: 'q', pool: 'p', resource: 'memory_bytes', guarantee: 1.5 * 1024 ** 3 },
  ]);
});

test('what is no number is found', () => {
  expect(unreadable({ [cellKey('q', 'p', 'gpu_millis', 'guarantee')]: '1e3' })).toBe(true);
  expect(unreadable({ [cellKey('q', 'p', 'gpu_millis', 'weight')]: '3' })).toBe(false);
});
