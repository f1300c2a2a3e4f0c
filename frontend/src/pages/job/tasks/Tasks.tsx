/** The tasks of an attempt: a thousand of them as a virtual table, by state and role, each with its log and terminal. */

import { Alert, Group, Select, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { Link } from 'react-router';

import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon, type IconName } from '@/ui/Icon';
import { Rows, type Column } from '@/ui/Rows';
import { isJobState, Mark, Status } from '@/ui/Status';
import { Elapsed } from '@/ui/Times';

import { AttemptChoice, useAttempt } from '../AttemptChoice';
import { rightsTo, tasksQuery, type Job, type Task, type TaskList } from '../queries';
import { refetchTasks, Stragglers, TaskProgress } from './Progress';
import classes from './Tasks.module.css';
import { words } from './text';
import { taskName, Waiting } from './Waiting';

type TaskState = Task['state'];
const STATES: readonly TaskState[] = ['pending', 'running', 'succeeded', 'failed', 'stopped'];

export default function Tasks({ job }: { job: Job }) {
  const attempt = useAttempt(job);
  const query = useQuery({ ...tasksQuery(job.id, attempt), refetchInterval: ({ state: { data } }) => refetchTasks(job, data?.items) });
  return <Answer query={query}>{(tasks) => <List job={job} tasks={tasks.items} extent={tasks.extent} attempt={attempt} />}</Answer>;
}

function List({ job, tasks, extent, attempt }: { job: Job; tasks: readonly Task[]; extent: TaskList['extent']; attempt: number | null }) {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const [search, put] = useAddress();
  const state = search.get('state');
  const role = search.get('role');
  const roles = useMemo(() => [...new Set(tasks.map((task) => task.role))], [tasks]);
  const counts = useMemo(() => {
    const found = new Map<TaskState, number>();
    for (const task of tasks) found.set(task.state, (found.get(task.state) ?? 0) + 1);
    return found;
  }, [tasks]);
  const shown = useMemo(() => tasks.filter((task) => (!state || task.state === state) && (!role || task.role === role)), [tasks, state, role]);
  const hasTerminal = session.has('terminal') && rightsTo(job, session).edit && attempt === null;
  const columns = useColumns(job, attempt, hasTerminal, tasks.some((task) => task.progress));
  const stateName = (name: TaskState) => (name === 'pending' ? t('pending') : c(name));
  return (
    <Stack>
      <Group gap="sm">
        <AttemptChoice job={job} />
        <Select
          aria-label={c('state')}
          w="11rem"
          clearable
          placeholder={t('allStates')}
          value={state}
          data={STATES.map((name) => ({ value: name, label: `${stateName(name)} (${counts.get(name) ?? 0})` }))}
          onChange={(value) => put({ state: value })}
        />
        {roles.length > 1 && <Select aria-label={t('role')} w="11rem" clearable searchable placeholder={t('allRoles')} value={role} data={roles} onChange={(value) => put({ role: value })} />}
        <Group gap={6} aria-label={t('summary')}>
          {STATES.filter((name) => counts.get(name)).map((name) => (
            <Group key={name} gap={4}>
              <Text size="sm" fw={600}>
                {counts.get(name)}
              </Text>
              <TaskStatus state={name} />
            </Group>
          ))}
        </Group>
        <Text size="sm" c="dimmed" ml="auto" role="status">
          {extent === 'reading' ? t('reading', { count: tasks.length }) : t('shown', { shown: shown.length, total: tasks.length })}
        </Text>
      </Group>
      {extent === 'cut' && <Alert color="yellow">{t('notWhole', { count: tasks.length })}</Alert>}
      <Waiting tasks={shown} />
      <Stragglers tasks={shown} />
      {shown.length === 0 ? (
        <Empty icon="filter" title={t('none')}>
          {t('noneHint')}
        </Empty>
      ) : (
        <Rows
          label={t('tasks')}
          rows={shown}
          columns={columns}
          rowKey={taskName}
          total={shown.length}
          height="max(20rem, calc(100vh - 21rem))"
        />
      )}
    </Stack>
  );
}

function TaskStatus({ state }: { state: TaskState }) {
  const t = useText(words);
  if (!isJobState(state)) return <Mark icon="clock" color="gray" label={t('pending')} />;
  return <Status state={state} />;
}

function useColumns(job: Job, attempt: number | null, hasTerminal: boolean, speak: boolean): readonly Column<Task>[] {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  return useMemo(() => {
    const address = (part: string, task: Task) => {
      const query = new URLSearchParams({ role: task.role, index: String(task.index) });
      if (attempt !== null) query.set('attempt', String(attempt));
      return `/jobs/${job.id}/${part}?${query}`;
    };
    const columns: Column<Task>[] = [
      { key: 'task', header: t('task'), width: 'minmax(6rem, 1.2fr)', cell: taskName },
      { key: 'state', header: c('state'), width: '7.5rem', cell: (task) => <TaskStatus state={task.state} /> },
      { key: 'node', header: c('node'), width: 'minmax(5rem, 1.2fr)', cell: (task) => task.node ?? '–', isMinor: true },
      {
        key: 'gpus',
        header: c('gpus'),
        width: 'minmax(5rem, 2fr)',
        cell: (task) => (task.gpus.length > 0 ? <span title={task.gpus.join(', ')}>{task.gpus.join(', ')}</span> : format.milli(task.resources.gpu_millis)),
        isMinor: true,
      },
      ...(speak ? [{ key: 'progress', header: t('progress'), width: 'minmax(13rem, 1.6fr)', cell: (task: Task) => <TaskProgress task={task} />, isMinor: true }] : []),
      { key: 'exit', header: t('exit'), width: 'minmax(5rem, 1fr)', cell: (task) => (task.waiting ? <span title={task.waiting.text}>{task.waiting.text}</span> : exitOf(task, t)), isMinor: true },
      { key: 'took', header: t('took'), width: '6.5rem', cell: (task) => <Elapsed from={task.started_at} to={task.ended_at} />, isMinor: true },
      {
        key: 'links',
        header: c('actions'),
        width: '6.5rem',
        cell: (task) => (
          <span className={classes.links}>
            <Go to={address('logs', task)} icon="jobs" label={t('log', { task: taskName(task) })} />
            <Go to={address('metrics', task)} icon="usage" label={t('use', { task: taskName(task) })} />
            {hasTerminal && task.state === 'running' && <Go to={address('terminal', task)} icon="terminal" label={t('terminal', { task: taskName(task) })} />}
          </span>
        ),
      },
    ];
    return columns;
  }, [job.id, attempt, hasTerminal, speak, t, c, format]);
}

/** A plain title, not a tooltip component: a thousand rows pass by here. */
function Go({ to, icon, label }: { to: string; icon: IconName; label: string }) {
  return (
    <Link to={to} className={classes.go} title={label} aria-label={label}>
      <Icon name={icon} size={16} />
    </Link>
  );
}

function exitOf(task: Task, t: (key: 'code' | 'signal', values: { code?: number; signal?: number }) => string): string {
  const { code, signal } = (task.exit ?? {}) as { code?: unknown; signal?: unknown };
  if (typeof signal === 'number') return t('signal', { signal });
  if (typeof code === 'number') return t('code', { code });
  return '–';
}
