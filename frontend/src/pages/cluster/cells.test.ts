/** Who is on which GPU. */

import { describe, expect, it } from 'vitest';

import type { FleetNode } from '@/api/fleet';

import { cellsOf, fits, mapRows } from './cells';

function machine(name: string, change: Partial<FleetNode> = {}): FleetNode {
  return {
    id: name,
    name,
    cluster: { id: 'c', name: 'local' },
    pool: { id: 'p', name: 'a100' },
    ready: true,
    reason: null,
    ready_since_at: '2026-01-01T00:00:00Z',
    cordoned: false,
    cordon_reason: null,
    cordoned_by: null,
    cordoned_at: null,
    capacity: { cpu_millis: 8000, memory_bytes: 1, gpu_millis: 4000 },
    allocated: { cpu_millis: 0, memory_bytes: 0, gpu_millis: 1500 },
    gpu_model: 'A100',
    gpus_simulated: false,
    gpus: [0, 1, 2, 3].map((index) => ({ identifier: `g${index}`, model: 'A100', memory_bytes: 1, healthy: index !== 3, simulated: false, faults: [] })),
    labels: {},
    taints: {},
    own_taints: {},
    last_seen_at: '2026-01-01T00:00:00Z',
    version: 1,
    ...change,
  };
}

const nobody = { index: 0, identifier: 'g', model: 'A100', is_healthy: true, is_simulated: false, holders: 0, held: false, held_millis: 0, job_id: null, job_name: null, tenant: null, user: null, utilisation: null };

describe('cellsOf', () => {
  it('shows as many GPUs as used as are taken where nobody says which', () => {
    expect(cellsOf(machine('a'), undefined).map((cell) => [cell.kind, cell.share])).toEqual([['other', 1000], ['other', 500], ['free', 0], ['broken', 0]]);
  });
  it('names whom the reader may know, and nobody else', () => {
    const occupied = { undecided_gpu_millis: 0, gpus: [{ ...nobody, held: true, held_millis: 1000, job_id: 'j', job_name: 'train', tenant: 'vision', user: 'bob' }, { ...nobody, index: 2, held: true, held_millis: 1000 }] };
    expect(cellsOf(machine('a'), occupied).map((cell) => cell.kind)).toEqual(['used', 'free', 'other', 'broken']);
  });
  it('closes what is idle on a cordoned machine', () => {
    expect(cellsOf(machine('a', { cordoned: true }), { undecided_gpu_millis: 0, gpus: [] }).map((cell) => cell.kind)).toEqual(['closed', 'closed', 'closed', 'broken']);
  });
});

it('finds a machine by who is on it', () => {
  const filter = { shows: 'all', pool: '', model: '', text: 'BOB' } as const;
  expect(fits(machine('a'), { undecided_gpu_millis: 0, gpus: [{ ...nobody, user: 'bob' }] }, filter)).toBe(true);
  expect(fits(machine('a'), undefined, filter)).toBe(false);
});

it('lays machines out by pool in the order of their numbers', () => {
  const rows = mapRows([machine('n10'), machine('n9'), machine('x', { pool: { id: 'q', name: 'b' } })], 1);
  expect(rows.map((row) => (row.kind === 'head' ? row.node.pool.name : row.nodes.map((node) => node.name).join()))).toEqual(['a100', 'n9', 'n10', 'b', 'x']);
});
