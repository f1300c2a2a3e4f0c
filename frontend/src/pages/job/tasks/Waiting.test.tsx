/** What tasks wait for before they begin, told once for all that wait for the same. */

import { expect, it } from 'vitest';

import type { Job, Task } from '../queries';
import { refetchWhileStarting, sharedWaits } from './Waiting';

const task = (index: number, waiting: Partial<NonNullable<Task['waiting']>> | null, state: Task['state'] = 'pending') =>
  ({ role: 'worker', index, state, waiting: waiting && { code: 'pulling_image', text: 'Its image is being pulled.', detail: '', since: '2026-01-01T10:00:00Z', ...waiting } }) as Task;

it('tells tasks that wait for the same once, since the first of them', () => {
  const tasks = [task(0, { code: 'unschedulable', detail: '0/3 nodes' }), task(1, {}), task(2, { since: '2026-01-01T09:00:00Z' }), task(3, null, 'running')];
  const waits = sharedWaits(tasks);
  expect(waits.map((wait) => [wait.code, wait.tasks])).toEqual([
    ['pulling_image', ['worker-1', 'worker-2']],
    ['unschedulable', ['worker-0']],
  ]);
  expect(waits[0]?.since).toBe('2026-01-01T09:00:00Z');
});

it('reads the list again as long as a task of a job that is not over has not begun', () => {
  const starting = { state: 'starting' } as Job;
  expect(refetchWhileStarting(starting, [task(0, {})])).toBeGreaterThan(0);
  expect(refetchWhileStarting(starting, [task(0, null, 'running')])).toBe(false);
  expect(refetchWhileStarting({ state: 'stopped' } as Job, [task(0, {})])).toBe(false);
});
