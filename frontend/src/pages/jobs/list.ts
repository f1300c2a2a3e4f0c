/** The rows: pages by cursor, put right by live events, with what is new held back while somebody reads further down. */

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';

import { api, take } from '@/api/client';
import type { LiveEvent } from '@/api/live';
import { hear } from '@/app/heard';

import { areCounted, toQuery, writeFilters, type Filters } from './filters';
import { countNew, withEvents, withHead, withRows, type Job, type JobList, type JobPage } from './merge';
import { countsQuery, listQuery, wereAskedEarly } from './queries';

const HEAD = 50; // Read anew after changes: what is in sight and a little more.
const AFTER_EVENTS_MS = 3_000; // Reading the first page anew costs the server more than an event does.
const EVERY_MS = 20_000; // Reasons of waits change without an event.
const SINGLES_MAX = 4;

export function useJobList(filters: Filters) {
  const cache = useQueryClient();
  const text = writeFilters(filters).toString();
  const query = useMemo(() => toQuery(filters, Date.now()), [text]); // eslint-disable-line react-hooks/exhaustive-deps
  const key = useMemo(() => ['job-list', text] as const, [text]);
  const [held, setHeld] = useState<{ page: JobPage; count: number } | null>(null);
  const isTop = useRef(true);
  const list = useInfiniteQuery(listQuery(filters));

  const change = useCallback((make: (old: JobList) => JobList) => cache.setQueryData<JobList>(key, (old) => (old ? make(old) : old)), [cache, key]);
  const isNewestFirst = filters.sort === 'created';
  const put = useCallback(
    (page: JobPage) => {
      setHeld(null);
      change((old) => withHead(old, page, isNewestFirst));
    },
    [change, isNewestFirst],
  );

  useEffect(() => {
    setHeld(null);
    isTop.current = true;
    const touched = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const abort = new AbortController();
    const read = async () => {
      timer = undefined;
      const before = cache.getQueryData<JobList>(key);
      if (!before || document.hidden) return;
      const page = await take(api.GET('/api/v1/jobs', { params: { query: { ...query, limit: HEAD } }, signal: abort.signal }));
      const fresh = countNew(before, page);
      if (isTop.current || fresh === 0) put(page);
      else {
        change((old) => withRows(old, page.items));
        setHeld({ page, count: fresh });
      }
      const inHead = new Set(page.items.map((job) => job.id));
      const others = [...touched].filter((id) => !inHead.has(id)).slice(0, SINGLES_MAX);
      touched.clear();
      if (others.length > 0) {
        const jobs = await Promise.allSettled(others.map((job) => take(api.GET('/api/v1/jobs/{job}', { params: { path: { job } }, signal: abort.signal }))));
        change((old) => withRows(old, jobs.flatMap((answer): Job[] => (answer.status === 'fulfilled' ? [answer.value] : []))));
      }
      void cache.invalidateQueries({ queryKey: ['job-counts'] });
    };
    const soon = () => {
      timer ??= setTimeout(() => void read().catch(() => undefined), AFTER_EVENTS_MS); // A failed try is made up for by the next one.
    };
    const stop = hear((events: LiveEvent[]) => {
      const ofJobs = events.filter((event) => event.job_id !== null);
      if (ofJobs.length === 0) return;
      const known = cache.getQueryData<JobList>(key);
      if (known) {
        const ids = new Set(ofJobs.map((event) => event.job_id));
        for (const page of known.pages) for (const job of page.items) if (ids.has(job.id)) touched.add(job.id);
        change((old) => withEvents(old, ofJobs));
      }
      soon();
    });
    const steady = setInterval(soon, EVERY_MS);
    // Come back to: shown at once, put right at once.
    if (!wereAskedEarly(text) && cache.getQueryData(key)) void read().catch(() => undefined);
    const seen = () => {
      if (!document.hidden) soon();
    };
    document.addEventListener('visibilitychange', seen);
    return () => {
      stop();
      abort.abort();
      clearTimeout(timer);
      clearInterval(steady);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [cache, key, text, query, change, put]);

  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.items) ?? [], [list.data]);
  const { fetchNextPage, hasNextPage, isFetchingNextPage, isFetchNextPageError } = list;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError) void fetchNextPage({ cancelRefetch: false });
  }, [fetchNextPage, hasNextPage, isFetchingNextPage, isFetchNextPageError]);
  const onTop = useCallback((now: boolean) => {
    isTop.current = now;
  }, []);
  const showNew = useCallback(() => {
    if (held) put(held.page);
  }, [held, put]);
  const update = useCallback((jobs: readonly Job[]) => change((old) => withRows(old, jobs)), [change]);
  return { query, rows, list, more, onTop, heldBack: held?.count ?? 0, showNew, update };
}

/** Counts by state, as far as the API keeps them: by tenant and queue. */
export function useCounts(filters: Filters): Record<string, number> | null {
  const isFit = areCounted(filters);
  const counts = useQuery({ ...countsQuery(filters), enabled: isFit, refetchInterval: 30_000 });
  return isFit ? (counts.data?.states ?? null) : null;
}
