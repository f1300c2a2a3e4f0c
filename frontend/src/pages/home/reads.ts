/** What the page reads: a fixed number of questions, whatever there is to show. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

import { api, take } from '@/api/client';
import { useSession } from '@/api/session';
import { hear } from '@/app/heard';

const AFTER_EVENTS_MS = 3_000;
const ACTIVE_SHOWN = 12;
const FAILED_SHOWN = 5;
const EXPLAINED = 3; // An answer costs the server a scheduling pass.

export function useMine() {
  const cache = useQueryClient();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = hear((events) => {
      if (!events.some((event) => event.job_id !== null)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        if (!document.hidden) void cache.invalidateQueries({ queryKey: ['my-jobs'] });
      }, AFTER_EVENTS_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [cache]);
  const active = useQuery({
    queryKey: ['my-jobs', 'active'],
    staleTime: 0, // Nobody listens while another page is shown: read anew by whoever comes back.
    refetchInterval: 30_000,
    queryFn: ({ signal }) => take(api.GET('/api/v1/jobs', { params: { query: { mine: true, state: ['queued', 'admitted', 'starting', 'running', 'stopping'], limit: ACTIVE_SHOWN } }, signal })),
  });
  const ended = useQuery({
    queryKey: ['my-jobs', 'failed'],
    staleTime: 0,
    queryFn: ({ signal }) => take(api.GET('/api/v1/jobs', { params: { query: { mine: true, state: ['failed'], sort: 'finished', limit: FAILED_SHOWN } }, signal })),
  });
  const any = useQuery({
    queryKey: ['my-jobs', 'any'],
    staleTime: 0,
    queryFn: ({ signal }) => take(api.GET('/api/v1/jobs', { params: { query: { mine: true, limit: 2 } }, signal })),
  });
  const isNewcomer = any.data?.items.length === 0;
  /** Of somebody who has not come further than the first one; undefined: of somebody who has. */
  const first = any.data && any.data.items.length < 2 ? any.data.items : undefined;
  return { active, ended, isNewcomer, first };
}

/** When the first few waiting ones are expected to start, by job. */
export function useExpected(waiting: readonly string[]) {
  const asked = waiting.slice(0, EXPLAINED);
  return useQuery({
    queryKey: ['expected-starts', ...asked],
    enabled: asked.length > 0,
    staleTime: 60_000,
    refetchInterval: 120_000,
    queryFn: async ({ signal }) => {
      const answers = await Promise.allSettled(asked.map((job) => take(api.GET('/api/v1/jobs/{job}/explain', { params: { path: { job } }, signal }))));
      return new Map(answers.flatMap((answer, index) => (answer.status === 'fulfilled' ? [[asked[index] ?? '', answer.value.expected] as const] : [])));
    },
  });
}

export function useCounts() {
  return useQuery({ queryKey: ['my-jobs', 'counts'], queryFn: ({ signal }) => take(api.GET('/api/v1/jobs:counts', { signal })) });
}

export function useShares() {
  return useQuery({
    queryKey: ['usage', 'home-shares'],
    staleTime: 60_000,
    refetchInterval: 120_000,
    queryFn: async ({ signal }) => {
      const answer = await take(api.GET('/api/v1/shares', { signal }));
      return typeof answer === 'string' ? [] : answer.items; // Text is what `format=csv` gives.
    },
  });
}

export function useBudgets() {
  const { has } = useSession();
  return useQuery({ queryKey: ['budgets', 'home'], enabled: has('billing'), staleTime: 60_000, queryFn: ({ signal }) => take(api.GET('/api/v1/budgets', { params: { query: { limit: 20 } }, signal })) });
}
