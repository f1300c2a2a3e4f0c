/** What was typed and not applied yet: texts by cell, and the changes that they come to. */

import type { Schemas } from '@/api/client';
import { parseAmount, parseWhole, RESOURCES, amountText, type Resource } from '@/text/amounts';

import { COLUMNS, type Column, type Limit } from './check';

export type Queue = Schemas['QueueOut'];
export type Change = Schemas['ChangeInRequest'];
/** Text by `cellKey`. */
export type Draft = Readonly<Record<string, string>>;

/** The operators' root, which stands for the pools. Who does not see it sees a tenant's own queue without a parent. */
export function isRoot(queue: Queue): boolean {
  return queue.parent_id === null && queue.tenant === null;
}

export function cellKey(queue: string, pool: string, resource: Resource, column: Column): string {
  return `${queue}/${pool}/${resource}/${column}`;
}

export function storedLimit(queue: Queue, pool: string, resource: Resource): Limit {
  const found = queue.pools.find((part) => part.pool.id === pool);
  return found ? { guarantee: found.guarantee[resource], deserved: found.deserved[resource], ceiling: found.ceiling[resource], weight: found.weight[resource] } : { guarantee: 0, deserved: null, ceiling: null, weight: 1 };
}

export function shownText(limit: Limit, resource: Resource, column: Column): string {
  if (column === 'weight') return String(limit.weight);
  return amountText(resource, limit[column]);
}

/** NaN: it is no number. An emptied guarantee is none, an emptied weight is 1. */
export function readText(text: string, resource: Resource, column: Column): number | null {
  const value = column === 'weight' ? parseWhole(text) : parseAmount(resource, text);
  if (value !== null) return value;
  return column === 'guarantee' ? 0 : column === 'weight' ? 1 : null;
}

/** The limit as it would be. What cannot be read stays as it was. */
export function draftLimit(queue: Queue, pool: string, resource: Resource, draft: Draft): Limit {
  const limit = { ...storedLimit(queue, pool, resource) };
  for (const column of COLUMNS) {
    const text = draft[cellKey(queue.id, pool, resource, column)];
    if (text === undefined) continue;
    const value = readText(text, resource, column);
    if (Number.isNaN(value)) continue;
    if (column === 'deserved' || column === 'ceiling') limit[column] = value;
    else limit[column] = value ?? 0;
  }
  return limit;
}

/** One change for each limit that differs, in the order of the queues. */
export function changesOf(queues: readonly Queue[], draft: Draft): Change[] {
  const touched = new Set(Object.keys(draft).map((key) => key.slice(0, key.lastIndexOf('/'))));
  const changes: Change[] = [];
  for (const queue of queues) {
    for (const part of queue.pools) {
      for (const resource of RESOURCES) {
        if (!touched.has(`${queue.id}/${part.pool.id}/${resource}`)) continue;
        const before = storedLimit(queue, part.pool.id, resource);
        const after = draftLimit(queue, part.pool.id, resource, draft);
        const values: Partial<Limit> = {};
        for (const column of COLUMNS) if (after[column] !== before[column]) Object.assign(values, { [column]: after[column] });
        if (Object.keys(values).length > 0) changes.push({ queue: queue.id, pool: part.pool.id, resource, ...values });
      }
    }
  }
  return changes;
}

export function unreadable(draft: Draft): boolean {
  return Object.entries(draft).some(([key, text]) => {
    const [, , resource, column] = key.split('/');
    return Number.isNaN(readText(text, resource as Resource, column as Column));
  });
}
