/** How far tasks are, by what they said themselves, and which of them are far behind: a bar and the same in words. */

import { Alert, List, Paper, Text, Title } from '@mantine/core';

import { useFormat, type Format } from '@/text/format';
import { useText } from '@/text/language';

import { hasEnded, type Job, type Task } from '../queries';
import classes from './Progress.module.css';
import { words } from './text';
import { refetchWhileStarting, taskName } from './Waiting';

const SPEAKING_MS = 5_000; // No event tells of it.
const SILENT_MS = 30_000; // A job may begin to say it at any time.
const MANY = 500; // A page of tasks; of more, several requests are made each time.
const NAMED = 5;

type Said = NonNullable<Task['progress']>;
type Late = Task & { straggler: NonNullable<Task['straggler']> };

/** Down to the whole percent, so that all is done at 100 %. */
export const sharePercent = ({ done, total }: Pick<Said, 'done' | 'total'>) => (total > 0 ? Math.floor((100 * done) / total) : 0);

const isStraggler = (task: Task): task is Late => Boolean(task.straggler);

/** How often a job is read again while it runs. */
export const refetchOfProgress = (job: Job | undefined) => {
  if (!job || job.state !== 'running' || job.array?.size != null) return false;
  return job.progress ? SPEAKING_MS : SILENT_MS;
};

/** How often its tasks are. */
export const refetchTasks = (job: Job, tasks: readonly Task[] | undefined) => {
  const starting = refetchWhileStarting(job, tasks);
  if (starting || hasEnded(job) || job.state !== 'running') return starting;
  return (tasks?.length ?? 0) <= MANY && tasks?.some((task) => task.progress) ? SPEAKING_MS : SILENT_MS;
};

export function progressWords(format: Format, progress: Said): string {
  const amounts = `${format.number(progress.done)}/${format.number(progress.total)}`;
  return progress.total > 0 ? `${format.percent(sharePercent(progress) / 100)} (${amounts})` : amounts;
}

/** The browser's own element, not a component: a thousand rows pass by here. */
export function ProgressBar({ progress, label }: { progress: Said; label: string }) {
  const said = progressWords(useFormat(), progress);
  return (
    <span className={classes.progress}>
      <progress className={classes.bar} value={progress.done} max={Math.max(progress.total, 1)} aria-label={label} aria-valuetext={said} />
      <span>{said}</span>
    </span>
  );
}

export function TaskProgress({ task }: { task: Task }) {
  const t = useText(words);
  if (!task.progress) return '–';
  return (
    <span className={classes.cell}>
      <ProgressBar progress={task.progress} label={t('progressOf', { task: taskName(task) })} />
      {task.straggler && <span className={classes.behind}>{t('behind', { count: task.straggler.behind_percent })}</span>}
    </span>
  );
}

/** Of the job: all its tasks together that say theirs. */
export function JobProgress({ job }: { job: Job }) {
  const t = useText(words);
  if (!job.progress) return null;
  return (
    <Paper withBorder p="md" component="section" aria-label={t('progress')} className={classes.whole}>
      <Title order={2} size="h4" mb="xs">
        {t('progress')}
      </Title>
      <ProgressBar progress={job.progress} label={t('progressOf', { task: job.name })} />
    </Paper>
  );
}

/** Those that are far behind, and what can be looked at. */
export function Stragglers({ tasks }: { tasks: readonly Task[] }) {
  const t = useText(words);
  const format = useFormat();
  const late = tasks.filter(isStraggler).sort((before, after) => after.straggler.behind_percent - before.straggler.behind_percent);
  if (late.length === 0) return null;
  return (
    <Alert color="yellow" title={t('stragglers')} component="section" aria-label={t('stragglers')}>
      <List size="sm">
        {late.slice(0, NAMED).map((task) => (
          <List.Item key={taskName(task)}>
            {t('straggler', {
              task: taskName(task),
              node: task.node ?? '–',
              share: format.percent((task.straggler.median_percent - task.straggler.behind_percent) / 100),
              median: format.percent(task.straggler.median_percent / 100),
            })}
          </List.Item>
        ))}
      </List>
      <Text size="sm">
        {late.length > NAMED && `${t('andMore', { count: late.length - NAMED })} `}
        {t('stragglersAdvice')}
      </Text>
    </Alert>
  );
}
