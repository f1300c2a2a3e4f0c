/** Times and lengths of time, which go on by themselves while something runs. */

import { useSyncExternalStore } from 'react';

import { useFormat } from '@/text/format';

const TICK_MS = 1_000;
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function watch(listener: () => void): () => void {
  listeners.add(listener);
  now = Math.max(now, Date.now()); // Nobody may have looked for a while.
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The clock in milliseconds, a new value each second while anybody looks. One timer for the whole page. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}

/** `3 minutes ago`, with the exact local time and its zone as the title. */
export function When({ at, size }: { at: string | null | undefined; size?: string }) {
  const format = useFormat();
  const current = useNow();
  if (!at) return <>–</>;
  return (
    <time dateTime={at} title={format.timeWithZone(at)} style={{ whiteSpace: 'nowrap', fontSize: size && `var(--mantine-font-size-${size})` }}>
      {format.ago(at, current)}
    </time>
  );
}

/** How long it took; while `to` is null, how long it has taken so far. */
export function Elapsed({ from, to }: { from: string | null | undefined; to: string | null | undefined }) {
  return to || !from ? <Fixed from={from} to={to} /> : <Growing from={from} />;
}

function Fixed({ from, to }: { from: string | null | undefined; to: string | null | undefined }) {
  const format = useFormat();
  if (!from || !to) return <>–</>;
  return <span style={{ whiteSpace: 'nowrap' }}>{format.duration((Date.parse(to) - Date.parse(from)) / 1000)}</span>;
}

function Growing({ from }: { from: string }) {
  const format = useFormat();
  const current = useNow();
  return <span style={{ whiteSpace: 'nowrap' }}>{format.duration(Math.floor(Math.max(0, current - Date.parse(from)) / 1000))}</span>;
}
