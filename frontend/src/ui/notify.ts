/** A short word in the corner that something was done, or was not. Read, and given its corner, when it is first needed. */

import { createElement, useSyncExternalStore } from 'react';

import { asProblem } from '@/api/problem';

import { Said } from './Said';

let isWanted = false;
const listeners = new Set<() => void>();

export function notify(message: string, kind: 'done' | 'failed' = 'done'): void {
  isWanted = true;
  for (const each of listeners) each();
  void import('@mantine/notifications').then(({ notifications }) =>
    notifications.show({ message: createElement(Said, { text: message }), color: kind === 'done' ? 'teal' : 'red', autoClose: kind === 'done' ? 4_000 : 12_000, withBorder: true }),
  );
}

export function notifyProblem(error: unknown): void {
  const problem = asProblem(error);
  notify([problem.detail || problem.title, problem.hint].filter(Boolean).join(' '), 'failed');
}

/** Whether there was anything to tell yet. */
export function useIsNotified(): boolean {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, () => isWanted);
}
