/** What the list asks for. Small, and without anything to draw: a visit asks before the page's own file is there. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';

import { areCounted, readFilters, toQuery, writeFilters, type Filters, type JobQuery } from './filters';

type JobPage = Schemas['JobPage'];

const PAGE = 100;

// Spans become times when the first page is asked for: a cursor belongs to one question.
const asked = new Map<string, JobQuery>();

export function listQuery(filters: Filters) {
  const text = writeFilters(filters).toString();
  return infiniteQueryOptions({
    queryKey: ['job-list', text] as const,
    queryFn: ({ pageParam, signal }) => {
      const query = (pageParam && asked.get(text)) || toQuery(filters, Date.now());
      asked.set(text, query);
      return take(api.GET('/api/v1/jobs', { params: { query: { ...query, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page: JobPage) => page.next,
    staleTime: Infinity,
    refetchOnWindowFocus: false,
  });
}

export function countsQuery({ tenant, queue }: Filters) {
  return queryOptions({
    queryKey: ['job-counts', tenant, queue],
    queryFn: ({ signal }) => take(api.GET('/api/v1/jobs:counts', { params: { query: { tenant: tenant || undefined, queue: queue || undefined } }, signal })),
  });
}

let early: string | null = null;

/** Ask for the first rows of an address before its page is drawn. */
export function beginList(address: URL): void {
  const filters = readFilters(address.searchParams);
  early = writeFilters(filters).toString();
  void queries.prefetchInfiniteQuery(listQuery(filters));
  if (areCounted(filters)) void queries.prefetchQuery(countsQuery(filters));
}

/** Whether the rows of these filters are there because the visit began with them; said once. */
export function wereAskedEarly(text: string): boolean {
  const were = early === text;
  early = null;
  return were;
}
