/**
 * Whether a tree of limits holds together, as one types: the same rules as the platform's, told at once and in the reader's units.
 * The platform has the last word; this only saves asking it.
 */

export const COLUMNS = ['guarantee', 'deserved', 'ceiling', 'weight'] as const;
export type Column = (typeof COLUMNS)[number];

export interface Limit {
  guarantee: number;
  /** Null: the guarantee. */
  deserved: number | null;
  /** Null: none. */
  ceiling: number | null;
  weight: number;
}

export interface Node {
  id: string;
  /** Null for the root, which stands for the pool. */
  parentId: string | null;
  limit: Limit;
}

export interface Fault {
  column: Column;
  code: 'below_guarantee' | 'above_ceiling' | 'sum_above_parent' | 'above_parent';
  /** What it is, and what it may be at most (or must be at least). */
  is: number;
  bound: number;
}

export interface Checked {
  faults: ReadonlyMap<string, readonly Fault[]>;
  /** What the queues right below are given together. Absent where there are none. */
  sums: ReadonlyMap<string, { guarantee: number; deserved: number }>;
}

export function owed(limit: Limit): number {
  return limit.deserved === null ? limit.guarantee : Math.max(limit.deserved, limit.guarantee);
}

/** `total`: what the pool has, for what stands right below a root; null where not all of it is seen. */
export function check(nodes: readonly Node[], total: number | null): Checked {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const faults = new Map<string, Fault[]>();
  const note = (id: string, fault: Fault) => {
    const found = faults.get(id);
    if (found) found.push(fault);
    else faults.set(id, [fault]);
  };
  const sums = new Map<string, { guarantee: number; deserved: number }>();
  for (const node of nodes) {
    const { guarantee, deserved, ceiling } = node.limit;
    if (deserved !== null && deserved < guarantee) note(node.id, { column: 'deserved', code: 'below_guarantee', is: deserved, bound: guarantee });
    if (ceiling !== null) {
      if (guarantee > ceiling) note(node.id, { column: 'guarantee', code: 'above_ceiling', is: guarantee, bound: ceiling });
      if (deserved !== null && deserved > ceiling) note(node.id, { column: 'deserved', code: 'above_ceiling', is: deserved, bound: ceiling });
      const above = lowestAbove(byId, node);
      if (above !== null && ceiling > above) note(node.id, { column: 'ceiling', code: 'above_parent', is: ceiling, bound: above });
    }
    if (node.parentId !== null) {
      const sum = sums.get(node.parentId) ?? { guarantee: 0, deserved: 0 };
      sums.set(node.parentId, { guarantee: sum.guarantee + guarantee, deserved: sum.deserved + owed(node.limit) });
    }
  }
  for (const [id, sum] of sums) {
    const parent = byId.get(id);
    if (!parent || (parent.parentId === null && total === null)) continue;
    const most = parent.parentId === null ? { guarantee: total ?? 0, deserved: total ?? 0 } : { guarantee: parent.limit.guarantee, deserved: owed(parent.limit) };
    if (sum.guarantee > most.guarantee) note(id, { column: 'guarantee', code: 'sum_above_parent', is: sum.guarantee, bound: most.guarantee });
    if (sum.deserved > most.deserved) note(id, { column: 'deserved', code: 'sum_above_parent', is: sum.deserved, bound: most.deserved });
  }
  return { faults, sums };
}

function lowestAbove(byId: ReadonlyMap<string, Node>, node: Node): number | null {
  let lowest: number | null = null;
  let here = node.parentId === null ? undefined : byId.get(node.parentId);
  for (let step = 0; here && step < byId.size; step += 1) {
    const { ceiling } = here.limit;
    if (ceiling !== null && (lowest === null || ceiling < lowest)) lowest = ceiling;
    here = here.parentId === null ? undefined : byId.get(here.parentId);
  }
  return lowest;
}
