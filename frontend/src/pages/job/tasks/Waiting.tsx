/** What tasks wait for that have a place and have not begun: the platform's words, and the cluster's own in quotation marks. */

import { List, Paper, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';

import { useText } from '@/text/language';
import { plain } from '@/ui/plain';
import { Elapsed } from '@/ui/Times';

import { hasEnded, tasksQuery, type Job, type Task } from '../queries';
import { words } from './text';

const EVERY_MS = 5_000; // No event tells of it.
const NAMED = 3;

type Reason = NonNullable<Task['waiting']>;
export interface Shared extends Reason {
  tasks: string[];
}

export const taskName = (task: Pick<Task, 'role' | 'index'>) => `${task.role}-${task.index}`;

/** How often the list is read again: as long as a task has not begun. */
export const refetchWhileStarting = (job: Job, tasks: readonly Task[] | undefined) =>
  !hasEnded(job) && (tasks ?? []).some((task) => task.state === 'pending') ? EVERY_MS : false;

/** Those that wait for the same are told once, most tasks first. */
export function sharedWaits(tasks: readonly Task[]): Shared[] {
  const found = new Map<string, Shared>();
  for (const task of tasks) {
    if (!task.waiting) continue;
    const key = JSON.stringify([task.waiting.code, task.waiting.detail]);
    const shared = found.get(key) ?? { ...task.waiting, tasks: [] };
    shared.tasks.push(taskName(task));
    if (task.waiting.since < shared.since) shared.since = task.waiting.since;
    found.set(key, shared);
  }
  return [...found.values()].sort((one, other) => other.tasks.length - one.tasks.length);
}

/** On the first look at a job that starts. */
export function Starting({ job }: { job: Job }) {
  const query = useQuery({ ...tasksQuery(job.id, null), refetchInterval: ({ state: { data } }) => refetchWhileStarting(job, data?.items) });
  return <Waiting tasks={query.data?.items ?? []} />;
}

export function Waiting({ tasks }: { tasks: readonly Task[] }) {
  const t = useText(words);
  const waits = useMemo(() => sharedWaits(tasks), [tasks]);
  if (waits.length === 0) return null;
  return (
    <Paper withBorder p="sm" component="section" aria-label={t('waiting')} style={{ overflowWrap: 'anywhere' }}>
      <Text fw={600} size="sm">
        {t('waiting')}
      </Text>
      <List size="sm">
        {waits.map((wait) => (
          <List.Item key={`${wait.code} ${wait.detail}`}>
            {wait.tasks.slice(0, NAMED).join(', ')}
            {wait.tasks.length > NAMED && ` ${t('andMore', { count: wait.tasks.length - NAMED })}`}
            {': '}
            {wait.text} {wait.detail && <q>{plain(wait.detail)}</q>}{' '}
            <Text span c="dimmed" size="sm">
              (<Elapsed from={wait.since} to={null} />)
            </Text>
          </List.Item>
        ))}
      </List>
    </Paper>
  );
}
