/**
 * What happens elsewhere, brought to every page: one subscription to everything that the person sees.
 *
 * Queries are named by what they show (`['jobs', ...]`, `['job', id, ...]`, `['queues', ...]`, `['nodes', ...]`): an event marks those
 * of its kind as old, and those in sight are read anew, at most once a second each. Whatever a page read before events began to come
 * is read once more then: what happened in between was told to nobody.
 */

import { useEffect } from 'react';

import { live, type LiveEvent } from '@/api/live';
import { queries } from '@/api/query';

import { tell } from './heard';

const EVERY_MS = 1_000;

/** The first words of the query keys that an event of this kind makes old. */
export function touched(event: LiveEvent): string[][] {
  const kind = event.kind.split('.')[0] ?? '';
  if (event.job_id) return [['job', event.job_id], ['jobs'], ['queues'], ['board']];
  if (kind === 'node' || kind === 'pool' || kind === 'cluster' || kind === 'maintenance') return [['nodes'], ['node'], ['pools'], ['clusters'], ['cluster'], ['maintenance']];
  if (kind === 'queue' || kind === 'quota' || kind === 'capacity' || kind === 'booking') return [['queues'], ['queue-names'], ['quotas'], ['bookings'], ['board']];
  if (kind === 'member') return [['tenant'], ['tenants'], ['session']]; // One's own role may be another now.
  if (kind === 'statement' || kind === 'share_statement') return [['usage']];
  return [[kind], [`${kind}s`]];
}

export function useFollowing(): void {
  useEffect(() => {
    const waiting = new Map<string, string[]>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      timer = undefined;
      const keys = [...waiting.values()];
      waiting.clear();
      for (const queryKey of keys) void queries.invalidateQueries({ queryKey });
    };
    const note = (keys: string[][]) => {
      for (const key of keys) waiting.set(key.join('\n'), key);
      timer ??= setTimeout(flush, EVERY_MS);
    };
    const stop = live.events(
      { user: 'me' },
      {
        onEvents: (events) => {
          note(events.flatMap(touched));
          tell(events);
        },
        onGap: () => void queries.invalidateQueries(),
        onBegin: () => note(queries.getQueryCache().getAll().map((query) => [String(query.queryKey[0])])),
      },
    );
    const wake = () => live.retry();
    window.addEventListener('online', wake);
    return () => {
      stop();
      clearTimeout(timer);
      window.removeEventListener('online', wake);
    };
  }, []);
}
