/** What this page reads, under keys that begin with `['job', id]`: events of the job make them old. */

import { queryOptions } from '@tanstack/react-query';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import type { SessionState } from '@/api/session';

export type Job = Schemas['JobOut'];
export type Task = Schemas['TaskOut'];

const TERMINAL: ReadonlySet<string> = new Set(['succeeded', 'failed', 'stopped']);
const TASKS_PAGE = 500;
const TASK_PAGES_MAX = 24; // 12,000 tasks; a job of more is read by the API.

export const hasEnded = (job: Job) => TERMINAL.has(job.state);
export const isArray = (job: Job) => job.array?.size != null;

/** Where two runs stand side by side, the older one first. */
export const compareAddress = (older: string, newer: string) => `/jobs/compare?a=${encodeURIComponent(older)}&b=${encodeURIComponent(newer)}`;

export interface Rights {
  /** Stop, tag, order, terminal. */
  edit: boolean;
  rerun: boolean;
  manage: boolean;
}

/** What docs/permissions.md gives to whom, so that nothing else is offered. */
export function rightsTo(job: Job, session: SessionState): Rights {
  const tenant = job.tenant.slug;
  const manage = session.isOperator || session.may('manager', tenant);
  const isOwn = job.user.id === session.who.user.id;
  return { edit: manage || (isOwn && session.may('member', tenant)), rerun: session.may('member', tenant), manage };
}

export const jobQuery = (job: string) => queryOptions({ queryKey: ['job', job], queryFn: () => take(api.GET('/api/v1/jobs/{job}', { params: { path: { job } } })) });

export const timelineQuery = (job: string) =>
  queryOptions({ queryKey: ['job', job, 'timeline'], queryFn: () => take(api.GET('/api/v1/jobs/{job}/timeline', { params: { path: { job } } })) });

export const costQuery = (job: string) => queryOptions({ queryKey: ['job', job, 'cost'], retry: false, queryFn: () => take(api.GET('/api/v1/jobs/{job}/cost', { params: { path: { job } } })) });

export const attemptsQuery = (job: string) =>
  queryOptions({ queryKey: ['job', job, 'attempts'], queryFn: () => take(api.GET('/api/v1/jobs/{job}/attempts', { params: { path: { job }, query: { limit: 10 } } })) });

/** What an attempt used, all metrics at once; `points` for each line. Up to 64 tasks: the server refuses more in one answer. */
export const seriesQuery = (job: string, points: number) =>
  queryOptions({ queryKey: ['job', job, 'metrics', 'whole', points], retry: false, queryFn: () => take(api.GET('/api/v1/jobs/{job}/metrics', { params: { path: { job }, query: { points } } })) });

export const specQuery = (job: string) =>
  queryOptions({
    queryKey: ['job', job, 'spec'],
    staleTime: Infinity,
    queryFn: async () => (await take(api.GET('/api/v1/jobs/{job}/spec', { params: { path: { job } } }))) as Record<string, unknown>,
  });

export interface TaskList {
  items: Task[];
  /** `reading`: the first of several pages, while the others are on their way. `cut`: there are more than this page reads. */
  extent: 'reading' | 'whole' | 'cut';
}

/** All tasks of an attempt; pages of 500, so a thousand tasks are two or three requests, and the first is shown at once. */
export const tasksQuery = (job: string, attempt: number | null) => {
  const queryKey = ['job', job, 'tasks', attempt];
  return queryOptions({
    queryKey,
    queryFn: async ({ client }): Promise<TaskList> => {
      const items: Task[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < TASK_PAGES_MAX; page += 1) {
        const answer = await take(api.GET('/api/v1/jobs/{job}/tasks', { params: { path: { job }, query: { limit: TASKS_PAGE, ...(cursor ? { cursor } : {}), ...(attempt ? { attempt } : {}) } } }));
        items.push(...answer.items);
        if (!answer.next) return { items, extent: 'whole' };
        cursor = answer.next;
        if (page === 0 && !client.getQueryData(queryKey)) client.setQueryData<TaskList>(queryKey, { items: [...items], extent: 'reading' });
      }
      return { items, extent: 'cut' };
    },
  });
};

/** A job and its list of tasks do not wait for each other, nor for the page's file. */
export function beginJob(address: URL): void {
  const [job = '', tab = ''] = address.pathname.split('/').slice(2).map(decodeURIComponent);
  void queries.prefetchQuery(jobQuery(job));
  if (tab === 'tasks' && !address.searchParams.has('attempt')) void queries.prefetchQuery(tasksQuery(job, null));
}
