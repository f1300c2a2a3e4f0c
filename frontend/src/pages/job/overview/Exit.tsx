/** How a job ended, in the words of its class: what happened, what to do, and what that rests on. */

import { Badge, Button, Code, Group, Paper, Stack, Text, ThemeIcon, Title } from '@mantine/core';
import { Link } from 'react-router';

import { useText } from '@/text/language';
import { Icon } from '@/ui/Icon';
import { Said } from '@/ui/Said';

import { hasEnded, isArray, type Job } from '../queries';
import { words } from './text';

const PAYERS = { user: 'user', platform: 'platform', nobody: 'nobody' } as const;
const COLORS = { succeeded: 'teal', failed: 'red', stopped: 'gray' } as const;
const SIGNS = { succeeded: 'check', failed: 'cross', stopped: 'stop' } as const;

export function Exit({ job }: { job: Job }) {
  const t = useText(words);
  const { exit } = job;
  // What it is tried again after is told too; while it runs well there is nothing to tell.
  if (!exit && !(hasEnded(job) && job.reason)) return null;
  const end = job.state === 'succeeded' || job.state === 'failed' || job.state === 'stopped' ? job.state : 'failed';
  const isGood = end === 'succeeded';
  // The reason says more than the exit does: who stopped it and why, and what the program itself left.
  const text = hasEnded(job) && job.reason ? job.reason.text : (exit?.text ?? '');
  const fix = (hasEnded(job) && job.reason?.hint) || (exit?.hint ?? '');
  const payer = exit && exit.who_pays in PAYERS ? t(PAYERS[exit.who_pays as keyof typeof PAYERS]) : exit?.who_pays;
  const task = exit?.task ?? '';
  const cut = task.lastIndexOf('-');
  const logOf = cut > 0 ? `?role=${encodeURIComponent(task.slice(0, cut))}&index=${encodeURIComponent(task.slice(cut + 1))}` : '';
  return (
    <Paper withBorder p="md" component="section" aria-label={t('exitTitle')} style={{ borderInlineStart: `5px solid var(--mantine-color-${COLORS[end]}-filled)` }}>
      <Stack gap="xs">
        <Group gap="xs">
          <ThemeIcon color={COLORS[end]} variant="light" size="sm">
            <Icon name={SIGNS[end]} size={14} />
          </ThemeIcon>
          <Title order={2} size="h4">
            {t('exitTitle')}
          </Title>
        </Group>
        <Text fw={600}>
          <Said text={text} />
        </Text>
        {!isGood && fix && (
          <Text>
            <b>{t('exitFix')}:</b> <Said text={fix} />
          </Text>
        )}
        {exit && !isGood && exit.evidence && (
          <div>
            <Text size="xs" c="dimmed">
              {t('evidence')}
            </Text>
            <Code block tabIndex={0} mah="12rem">
              {exit.evidence}
            </Code>
          </div>
        )}
        {exit && (
          <Group gap="xs">
            {exit.code !== null && <Fact text={t('exitCode', { code: exit.code })} />}
            {exit.signal !== null && <Fact text={t('exitSignal', { signal: exit.signal })} />}
            {exit.task && <Fact text={t('exitTask', { task: exit.task })} />}
            <Fact text={t('exitClass', { class: exit.class })} />
            {payer && !isGood && <Fact text={t('exitPays', { who: payer })} />}
          </Group>
        )}
        {!isArray(job) && job.attempt > 0 && (
          <Group gap="md">
            <Button component={Link} to={`/jobs/${job.id}/logs${logOf}`} size="xs" variant="default" leftSection={<Icon name="jobs" size={14} />}>
              {t('toLog')}
            </Button>
          </Group>
        )}
      </Stack>
    </Paper>
  );
}

function Fact({ text }: { text: string }) {
  return (
    <Badge variant="default" tt="none" fw={500}>
      {text}
    </Badge>
  );
}
