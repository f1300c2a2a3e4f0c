/** What a queue's board asks for. Small, and without anything to draw: a visit asks before the page's own file is there. */

import { queryOptions } from '@tanstack/react-query';

import { api, take } from '@/api/client';
import { queries } from '@/api/query';

export const FIRST_ROWS = 100;

export const boardQuery = (queueId: string, limit: number) =>
  queryOptions({
    queryKey: ['board', queueId, limit],
    queryFn: ({ signal }) => take(api.GET('/api/v1/queues/{queue_id}/board', { params: { path: { queue_id: queueId }, query: { limit } }, signal })),
  });

export const queueQuery = (queueId: string) =>
  queryOptions({ queryKey: ['queues', queueId], queryFn: ({ signal }) => take(api.GET('/api/v1/queues/{queue_id}', { params: { path: { queue_id: queueId } }, signal })) });

/** A queue and its board do not wait for each other, nor for the page's file. */
export function beginBoard(address: URL): void {
  const queueId = decodeURIComponent(address.pathname.split('/')[2] ?? '');
  if (!queueId) return;
  void queries.prefetchQuery(queueQuery(queueId));
  void queries.prefetchQuery(boardQuery(queueId, FIRST_ROWS));
}
