/** A short word in the corner that something was done, or was not. Loaded when it is first needed. */

import { asProblem } from '@/api/problem';

export function notify(message: string, kind: 'done' | 'failed' = 'done'): void {
  void import('@mantine/notifications').then(({ notifications }) =>
    notifications.show({ message, color: kind === 'done' ? 'teal' : 'red', autoClose: kind === 'done' ? 4_000 : 12_000, withBorder: true }),
  );
}

export function notifyProblem(error: unknown): void {
  const problem = asProblem(error);
  notify([problem.detail || problem.title, problem.hint].filter(Boolean).join(' '), 'failed');
}
