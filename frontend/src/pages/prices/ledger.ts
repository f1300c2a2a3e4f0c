/** Prices by pool: what holds, what is to come, what was. */

import type { Schemas } from '@/api/client';

export type Price = Schemas['PriceOut'];
export const RESOURCES = ['gpu_millis', 'cpu_millis', 'memory_bytes'] as const;
export type Resource = (typeof RESOURCES)[number];

export interface PoolPrices {
  id: string;
  name: string;
  now: Partial<Record<Resource, Price>>;
  planned: Price[];
  past: Price[];
}

export function isResource(text: string): text is Resource {
  return (RESOURCES as readonly string[]).includes(text);
}

/** Pools in the order of their names; planned the next first, past the latest first. */
export function byPool(prices: readonly Price[]): PoolPrices[] {
  const pools = new Map<string, PoolPrices>();
  for (const price of prices) {
    const id = price.pool?.id ?? '';
    const pool = pools.get(id) ?? { id, name: price.pool ? `${price.pool.cluster}/${price.pool.name}` : '–', now: {}, planned: [], past: [] };
    pools.set(id, pool);
    if (price.state === 'planned') pool.planned.push(price);
    else if (price.state === 'past') pool.past.push(price);
    else if (isResource(price.resource)) pool.now[price.resource] = price;
  }
  for (const pool of pools.values()) {
    pool.planned.sort((one, other) => one.effective_at.localeCompare(other.effective_at));
    pool.past.sort((one, other) => other.effective_at.localeCompare(one.effective_at));
  }
  return [...pools.values()].sort((one, other) => one.name.localeCompare(other.name));
}

/** Money as typed, in millionths; undefined where nothing was typed. */
export function micros(typed: number | string): number | undefined {
  return typeof typed === 'number' ? Math.round(typed * 1e6) : undefined;
}
