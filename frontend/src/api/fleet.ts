/** What several pages read alike, each under one key of its own: pools, nodes, clusters, queues, budgets. Lists that are shown whole are read to their end. */

import { useQuery } from '@tanstack/react-query';

import { api, take, type Schemas } from './client';
import { problemOf } from './problem';

export type Pool = Schemas['PoolOut'];
export type FleetNode = Schemas['NodeOut'];
export type Cluster = Schemas['ClusterOut'];
export type Queue = Schemas['QueueOut'];
export type QueuePool = Schemas['QueuePoolOut'];
export type Budget = Schemas['BudgetOut'];
export type Series = Schemas['SeriesOut'];
export type Resource = 'gpu_millis' | 'cpu_millis' | 'memory_bytes';

export const RESOURCES: readonly Resource[] = ['gpu_millis', 'cpu_millis', 'memory_bytes'];
const PAGE_ROWS = 500; // The most that the API gives at once.
const PAGES_MAX = 40; // 20,000 rows: more than any page here can show with sense.

interface Part<T> {
  items: T[];
  next?: string | null;
}

/** All items of a list, page after page. */
export async function readAll<T>(read: (page: { limit: number; cursor?: string }) => Promise<Part<T>>): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const part = await read({ limit: PAGE_ROWS, cursor });
    items.push(...part.items);
    if (!part.next) break;
    cursor = part.next;
  }
  return items;
}

/** `everyMs`: read again that often; jobs that begin and end change what is free, and no event of the pool tells it. */
export function usePools(everyMs?: number) {
  return useQuery({ queryKey: ['pools'], refetchInterval: everyMs, queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/pools', { params: { query: page }, signal }))) });
}

export function useClusters() {
  return useQuery({ queryKey: ['clusters'], queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/clusters', { params: { query: page }, signal }))) });
}

export function useNodes() {
  return useQuery({ queryKey: ['nodes'], refetchInterval: 20_000, queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/nodes', { params: { query: page }, signal }))) });
}

export function useQueues() {
  return useQuery({ queryKey: ['queues'], queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/queues', { params: { query: page }, signal }))) });
}

/** The same for choices and filters: not read anew at each event of a job. */
export function useQueueNames(isOn = true) {
  return useQuery({ queryKey: ['queue-names'], enabled: isOn, staleTime: 60_000, queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/queues', { params: { query: page }, signal }))) });
}

/** What an operator may choose from; everybody else chooses among the tenants of the session. */
export function useTenantNames(isOn = true) {
  return useQuery({ queryKey: ['tenants', 'names'], enabled: isOn, staleTime: 60_000, queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/tenants', { params: { query: page }, signal }))) });
}

/** Budgets of the queues that one sees. A queue without one is not in it. */
export function useBudgetList(isOn = true) {
  return useQuery({ queryKey: ['budgets'], enabled: isOn, queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/budgets', { params: { query: page }, signal }))) });
}

/** A series as a chart's columns: seconds since 1970, and values with gaps. */
export function chartTimes(series: Series): number[] {
  return series.times.map((at) => Date.parse(at) / 1000);
}

type Readiness = Schemas['ReadyzOut'];

/** What the platform says of itself. It answers 503 with the same body when a check fails, which is an answer too. */
export function useReadiness() {
  return useQuery({
    queryKey: ['readiness'],
    refetchInterval: 15_000,
    queryFn: async ({ signal }): Promise<Readiness> => {
      const response = await fetch('/readyz', { signal, headers: { Accept: 'application/json' } });
      if (!response.ok && response.status !== 503) throw await problemOf(response);
      return (await response.json()) as Readiness;
    },
  });
}
