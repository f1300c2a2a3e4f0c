/** Who wants the events themselves, not only their queries read anew: one subscription serves all of them. */

import type { LiveEvent } from '@/api/live';

type Listener = (events: LiveEvent[]) => void;
const listeners = new Set<Listener>();

export function hear(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function tell(events: LiveEvent[]): void {
  for (const listener of listeners) listener(events);
}
