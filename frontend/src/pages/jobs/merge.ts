/**
 * How the list changes while it is looked at: rows are put right where they stand, and what is new comes on top.
 *
 * The first page is read anew after changes; everything further down is changed by the events alone, so that a list of many
 * pages costs one request, not one per page. A row keeps its identity while nothing about it changed: it is not drawn again.
 */

import type { InfiniteData } from '@tanstack/react-query';

import type { Schemas } from '@/api/client';
import type { LiveEvent } from '@/api/live';
import { isJobState } from '@/ui/Status';

export type Job = Schemas['JobOut'];
export type JobPage = Schemas['JobPage'];
export type JobList = InfiniteData<JobPage, string | null>;

const ENDED = new Set(['succeeded', 'failed', 'stopped']);

/** The rows with the first page read anew. Rows that the filter no longer shows leave; those below what was read stay. */
export function withHead(list: JobList, head: JobPage, isNewestFirst: boolean): JobList {
  const first = list.pages[0];
  if (!first) return list;
  const known = new Map(list.pages.flatMap((page) => page.items).map((job) => [job.id, job]));
  const items = head.items.map((job) => same(known.get(job.id), job));
  if (!head.items.some((job) => known.has(job.id))) return { pages: [{ items, next: head.next }], pageParams: [null] }; // More is new than one page holds.
  if (!isNewestFirst || head.next === null) {
    // In another order a row may come from anywhere: go on below from what was read just now.
    if (list.pages.length === 1 || head.next === null) return { pages: [{ items, next: head.next }], pageParams: [null] };
    const there = new Set(items.map((job) => job.id));
    return { ...list, pages: [{ ...first, items: [...items, ...first.items.filter((job) => !there.has(job.id))] }, ...list.pages.slice(1).map((page) => ({ ...page, items: page.items.filter((job) => !there.has(job.id)) }))] };
  }
  const last = head.items.at(-1);
  const below = (job: Job) => last === undefined || job.id < last.id; // Ids are ordered by time of submission.
  const there = new Set(items.map((job) => job.id));
  const pages = list.pages.map((page, index) => {
    const rest = page.items.filter((job) => below(job) && !there.has(job.id));
    const kept = index === 0 ? [...items, ...rest] : rest.length === page.items.length ? page.items : rest;
    return { ...page, items: kept };
  });
  // A first page of fewer rows than were there before, with nothing kept below: its cursor is the newer one.
  if (pages.length === 1 && pages[0]?.items.length === items.length) return { pages: [{ items, next: head.next }], pageParams: [null] };
  return { ...list, pages };
}

/** How many of the rows just read are not in the list yet. */
export function countNew(list: JobList, head: JobPage): number {
  const known = new Set(list.pages.flatMap((page) => page.items).map((job) => job.id));
  const found = head.items.findIndex((job) => known.has(job.id));
  return found < 0 ? head.items.length : head.items.slice(0, found).length;
}

/** Rows that are known, read anew, at their places; nothing comes and nothing goes. */
export function withRows(list: JobList, jobs: readonly Job[]): JobList {
  const fresh = new Map(jobs.map((job) => [job.id, job]));
  return mapJobs(list, (job) => {
    const found = fresh.get(job.id);
    return found ? same(job, found) : job;
  });
}

/** Rows as the events of their jobs say, until they are read anew. */
export function withEvents(list: JobList, events: readonly LiveEvent[]): JobList {
  const latest = new Map<string, LiveEvent>();
  for (const event of events) {
    if (event.job_id && event.kind.startsWith('job.') && typeof event.data.to === 'string') latest.set(event.job_id, event);
  }
  if (latest.size === 0) return list;
  return mapJobs(list, (job) => {
    const event = latest.get(job.id);
    const to = event?.data.to;
    if (!event || typeof to !== 'string' || !isJobState(to) || to === job.state) return job;
    return {
      ...job,
      state: to,
      reason: null,
      started_at: to === 'running' && job.started_at === null ? event.at : job.started_at,
      ended_at: ENDED.has(to) ? event.at : null,
    };
  });
}

function mapJobs(list: JobList, change: (job: Job) => Job): JobList {
  let isChanged = false;
  const pages = list.pages.map((page) => {
    let isPage = false;
    const items = page.items.map((job) => {
      const changed = change(job);
      if (changed !== job) isPage = true;
      return changed;
    });
    if (!isPage) return page;
    isChanged = true;
    return { ...page, items };
  });
  return isChanged ? { ...list, pages } : list;
}

function same(before: Job | undefined, after: Job): Job {
  return before && JSON.stringify(before) === JSON.stringify(after) ? before : after;
}
