/** What a queue stands on in a pool: what it uses of its promise, what it borrows, and what it leaves to others meanwhile. */

import type { Queue, QueuePool, Resource } from '@/api/fleet';

export interface Standing {
  used: number;
  guarantee: number;
  /** What it may take back from whoever borrowed it; never below the guarantee. */
  deserved: number;
  ceiling: number | null;
  /** False: nobody promised it anything, it runs by its weight, and nothing of it is borrowed. */
  isPromised: boolean;
  /** The parts of `used`, which add up to it. */
  guaranteed: number;
  owed: number;
  borrowed: number;
  /** Of what it deserves, what it leaves unused: others may have it until it wants it. A guarantee is never lent. */
  lends: number;
}

/** `isRoot`: the whole installation, which borrows from nobody. */
export function standing(limits: QueuePool, resource: Resource, isRoot = false): Standing {
  const used = limits.used[resource];
  const guarantee = limits.guarantee[resource];
  const deserved = Math.max(guarantee, limits.deserved[resource] ?? 0);
  const isPromised = !isRoot && (guarantee > 0 || limits.deserved[resource] !== null);
  const guaranteed = Math.min(used, guarantee);
  const owed = (isPromised ? Math.min(used, deserved) : used) - guaranteed;
  return { used, guarantee, deserved, ceiling: limits.effective_ceiling[resource], isPromised, guaranteed, owed, borrowed: used - guaranteed - owed, lends: Math.max(0, deserved - Math.max(used, guarantee)) };
}

interface Lender {
  queue: Queue;
  lends: number;
}

export function limitsIn(queue: Queue, poolId: string): QueuePool | undefined {
  return queue.pools.find((limits) => limits.pool.id === poolId);
}

/** Of the queues beside this one that the reader sees: who leaves something unused here, the most first. */
export function lenders(queues: readonly Queue[], queue: Queue, poolId: string, resource: Resource): Lender[] {
  return queues
    .filter((other) => other.id !== queue.id && other.tenant !== null && other.parent_id === queue.parent_id && other.is_top === queue.is_top)
    .flatMap((other) => {
      const limits = limitsIn(other, poolId);
      const lends = limits ? standing(limits, resource).lends : 0;
      return lends > 0 ? [{ queue: other, lends }] : [];
    })
    .sort((one, other) => other.lends - one.lends);
}

/** Queues in the order of the tree, each with how deep it stands below the first that the reader sees. */
export function tree(queues: readonly Queue[]): { queue: Queue; depth: number }[] {
  const ids = new Set(queues.map((queue) => queue.id));
  const below = new Map<string, Queue[]>();
  for (const queue of queues) {
    const parent = queue.parent_id && ids.has(queue.parent_id) ? queue.parent_id : '';
    const children = below.get(parent);
    if (children) children.push(queue);
    else below.set(parent, [queue]);
  }
  const rows: { queue: Queue; depth: number }[] = [];
  const visit = (parent: string, depth: number) => {
    const children = [...(below.get(parent) ?? [])].sort((one, other) => one.path.localeCompare(other.path));
    for (const queue of children) {
      rows.push({ queue, depth });
      visit(queue.id, depth + 1);
    }
  };
  visit('', 0);
  return rows;
}
