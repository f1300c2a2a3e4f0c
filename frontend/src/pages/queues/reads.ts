/** What the boards read. A queue's board comes in one answer; longer lines go on in pages of jobs. */

import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useCallback, useMemo, useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import type { Queue } from '@/api/fleet';

import { boardQuery, FIRST_ROWS } from './queries';

export type RunningRow = Board['running'][number];
export type WaitingRow = Board['waiting'][number];
export type Board = Schemas['BoardOut'];

const BOARD_ROWS_MAX = 500; // The most that the board tells at once.

/** The board of a queue, and a way to read more of its line. What comes from pages of jobs has no place in the line with it. */
export function useBoard(queueId: string) {
  const [limit, setLimit] = useState(FIRST_ROWS);
  const board = useQuery({ ...boardQuery(queueId, limit), placeholderData: keepPreviousData });
  const [isLong, setLong] = useState(false);
  const tail = useInfiniteQuery({
    queryKey: ['board-tail', queueId],
    enabled: isLong,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: { next: string | null }) => page.next ?? undefined,
    queryFn: ({ pageParam, signal }) => take(api.GET('/api/v1/jobs', { params: { query: { queue: queueId, state: ['queued'], sort: 'priority', limit: BOARD_ROWS_MAX, cursor: pageParam } }, signal })),
  });
  const waiting = useMemo(() => withTail(board.data?.waiting ?? [], (tail.data?.pages ?? []).flatMap((page) => page.items)), [board.data, tail.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = tail;
  const count = board.data?.waiting_count ?? 0;
  const runs = board.data?.running_count ?? 0;
  const more = useCallback(() => {
    if (limit < BOARD_ROWS_MAX && Math.max(count, runs) > limit) setLimit(BOARD_ROWS_MAX);
    else if (count > limit) {
      setLong(true);
      if (hasNextPage && !isFetchingNextPage) void fetchNextPage({ cancelRefetch: false });
    }
  }, [limit, count, runs, hasNextPage, isFetchingNextPage, fetchNextPage]);
  return { board, waiting, more };
}

/** The board's rows, then those jobs that it did not name. */
function withTail(rows: readonly WaitingRow[], jobs: readonly Schemas['JobOut'][]): WaitingRow[] {
  const named = new Set(rows.flatMap((row) => (row.job ? [row.job.id] : [])));
  return [
    ...rows,
    ...jobs
      .filter((job) => !named.has(job.id))
      .map((job): WaitingRow => ({
        job: { id: job.id, name: job.name },
        tenant: job.tenant.name,
        user: job.user,
        queue: job.queue,
        gpus: job.resources.gpu_millis / 1000,
        position: job.place,
        priority: job.priority,
        hold: job.hold,
        reason: job.reason,
        expected_start: null,
        submitted_at: job.submitted_at,
      })),
  ];
}

export interface QueueCounts {
  running: number;
  waiting: number;
}

/** Jobs that wait and run: in all, and of each queue with those of the queues below it. */
export function useCounts(queues: readonly Queue[] | undefined) {
  const counts = useQuery({ queryKey: ['jobs', 'counts', 'queues'], queryFn: ({ signal }) => take(api.GET('/api/v1/jobs:counts', { params: { query: { by_queue: true } }, signal })) });
  const byQueue = useMemo(() => sumUp(queues ?? [], counts.data?.queues ?? []), [queues, counts.data]);
  return { states: counts.data?.states, byQueue };
}

/** Each queue's own jobs, counted at itself and at every queue above it. */
export function sumUp(queues: readonly Pick<Queue, 'id' | 'parent_id'>[], own: readonly { queue_id: string; states: Record<string, number> }[]): ReadonlyMap<string, QueueCounts> {
  const parents = new Map(queues.map((queue) => [queue.id, queue.parent_id]));
  const found = new Map<string, QueueCounts>();
  for (const { queue_id, states } of own) {
    for (let id: string | null | undefined = queue_id; id; id = parents.get(id)) {
      const sum = found.get(id) ?? { running: 0, waiting: 0 };
      found.set(id, { running: sum.running + held(states), waiting: sum.waiting + (states.queued ?? 0) });
    }
  }
  return found;
}

/** Jobs that hold room: from the moment they are let in until all of them is gone. */
export function held(states: Record<string, number>): number {
  return (states.admitted ?? 0) + (states.starting ?? 0) + (states.running ?? 0) + (states.stopping ?? 0);
}
