/** What the boards read. A queue's board comes in one answer; longer lines go on in pages of jobs. */

import { useInfiniteQuery, useQuery } from '@tanstack/react-query';

import { api, take, type Schemas } from '@/api/client';
import { readAll } from '@/api/fleet';

export type Job = Schemas['JobOut'];

export interface BoardJob {
  id: string;
  name: string;
}
interface BoardRow {
  job: BoardJob | null;
  user: string | null;
  tenant?: string | null;
  gpu_millis: number;
}
export interface RunningRow extends BoardRow {
  started_at: string | null;
  borrowed: boolean | null;
}
export interface WaitingRow extends BoardRow {
  position: number | null;
  reason: string;
  hint: string;
  expected_start: string | null;
  priority: number | null;
}
export interface Board {
  running: RunningRow[];
  waiting: WaitingRow[];
  counts: { running: number; waiting: number };
}

const ROWS = 100;
const HELD = ['admitted', 'starting', 'running', 'stopping'] as const;

export function useLine(queueId: string, which: 'running' | 'waiting') {
  return useInfiniteQuery({
    queryKey: ['board', queueId, which],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: { next: string | null }) => page.next ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      take(
        api.GET('/api/v1/jobs', {
          params: { query: { queue: queueId, state: which === 'waiting' ? ['queued'] : [...HELD], sort: which === 'waiting' ? 'priority' : 'created', limit: ROWS, cursor: pageParam } },
          signal,
        }),
      ),
  });
}

export function useCounts(queueId?: string) {
  return useQuery({ queryKey: ['board', queueId ?? '', 'counts'], queryFn: ({ signal }) => take(api.GET('/api/v1/jobs:counts', { params: { query: { queue: queueId } }, signal })) });
}

export function runningRow(job: Job): RunningRow {
  return { job: { id: job.id, name: job.name }, user: job.user.name, gpu_millis: job.resources.gpu_millis, started_at: job.started_at, borrowed: null };
}

export function waitingRow(job: Job): WaitingRow {
  return { job: { id: job.id, name: job.name }, user: job.user.name, gpu_millis: job.resources.gpu_millis, position: job.place, reason: job.reason?.text ?? '', hint: job.reason?.hint ?? '', expected_start: null, priority: job.priority };
}

/** The queue's budget, or null where it has none. Asked of the list: a queue without one is no failure. */
export function useBudget(queueId: string, isOn: boolean) {
  return useQuery({
    queryKey: ['budgets'],
    enabled: isOn,
    queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/budgets', { params: { query: page }, signal }))),
    select: (all): Schemas['BudgetOut'] | null => all.find((budget) => budget.queue.id === queueId) ?? null,
  });
}
