/** For somebody with nothing yet: from an empty account to a finished job, without leaving the page to look for the next step. */

import { Alert, Button, Code, Group, NativeSelect, Paper, SimpleGrid, Stack, Text, ThemeIcon, Title } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState, type ReactNode } from 'react';
import { Link } from 'react-router';

import { newKey, send, type Schemas } from '@/api/client';
import { prefer } from '@/api/preferences';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { CopyText, quote } from '@/ui/CopyAs';
import { ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notifyProblem } from '@/ui/notify';
import { Said } from '@/ui/Said';
import { Mark, Status } from '@/ui/Status';
import { HELLO } from '@/pages/submit/samples';

import { words } from './text';

type Job = Schemas['JobOut'];
type Progress = 'done' | 'now' | 'later';
const ENDED = ['succeeded', 'failed', 'stopped'];

/** What stands in the way of a first job where one cannot be submitted at all. */
export function NoSteps() {
  const t = useText(words);
  const session = useSession();
  if (session.isOperator) return null;
  return session.who.tenants.length === 0 ? (
    <Alert icon={<Icon name="info" />} title={t('nobodyTitle')}>
      {t('nobodyText', { name: session.who.user.name })}
    </Alert>
  ) : (
    <Alert icon={<Icon name="info" />} title={t('viewerTitle')}>
      {t('viewerText')}
    </Alert>
  );
}

/** `job`: the only one there is so far; undefined while there is none. */
export function FirstSteps({ job }: { job: Job | undefined }) {
  const t = useText(words);
  const leave = useMutation({
    mutationFn: () => prefer({ first_steps_done: true }),
    onSuccess: () => document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true }), // Its button has gone with the steps.
    onError: notifyProblem,
  });
  const hasEnded = job !== undefined && ENDED.includes(job.state);
  return (
    <Stack gap="sm" component="section" aria-label={t('start')}>
      <Group justify="space-between">
        <Title order={2} size="h4">
          {t('start')}
        </Title>
        <Button variant="subtle" size="compact-sm" loading={leave.isPending} onClick={() => leave.mutate()}>
          {t(hasEnded ? 'stepsDone' : 'stepsAway')}
        </Button>
      </Group>
      <SimpleGrid cols={{ base: 1, md: 3 }}>
        <Step number={1} title={t('step1')} text={t('step1Text')} progress={job ? 'done' : 'now'}>
          {job ? null : <Example />}
        </Step>
        <Step number={2} title={t('step2')} text={t('step2Text')} progress={hasEnded ? 'done' : job ? 'now' : 'later'}>
          {job && <Watch job={job} hasEnded={hasEnded} />}
        </Step>
        <Step number={3} title={t('step3')} text={t('step3Text')} progress={hasEnded ? 'now' : 'later'}>
          <Next />
        </Step>
      </SimpleGrid>
    </Stack>
  );
}

/** The example, to be run as it stands or looked at first. The same click sent twice makes one job. */
function Example() {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const cache = useQueryClient();
  const tenants = session.who.tenants.filter((tenant) => session.may('member', tenant.slug));
  const [tenant, setTenant] = useState(tenants[0]?.slug ?? '');
  const key = useRef(newKey());
  const run = useMutation({
    mutationFn: () => send('POST', `/api/v1/jobs?${new URLSearchParams({ tenant }).toString()}`, { body: HELLO, headers: { 'Content-Type': 'application/yaml', 'Idempotency-Key': key.current } }),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['my-jobs'] }),
    onError: () => {
      key.current = newKey();
    },
  });
  return (
    <Stack gap="sm">
      <Code block tabIndex={0} fz="xs" style={{ overflowX: 'auto' }}>
        {HELLO}
      </Code>
      {tenants.length > 1 && <NativeSelect label={c('tenant')} value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} data={tenants.map((entry) => ({ value: entry.slug, label: entry.name }))} />}
      {run.error && <ProblemView error={run.error} />}
      <Group gap="xs">
        <Button size="xs" loading={run.isPending} onClick={() => run.mutate()} leftSection={<Icon name="play" size={14} />}>
          {t('runExample')}
        </Button>
        <Button component={Link} to="/submit" size="xs" variant="default">
          {t('toForm')}
        </Button>
      </Group>
    </Stack>
  );
}

function Watch({ job, hasEnded }: { job: Job; hasEnded: boolean }) {
  const t = useText(words);
  const why = job.state === 'succeeded' ? '' : (job.reason?.text ?? '');
  return (
    <Stack gap="xs" role="status">
      <Group gap="xs">
        <Text size="sm" fw={600} style={{ overflowWrap: 'anywhere' }}>
          {job.name}
        </Text>
        <Status state={job.state} size="sm" />
      </Group>
      {why && (
        <Text size="sm">
          <Said text={why} />
        </Text>
      )}
      <Group gap="xs">
        <Button component={Link} to={hasEnded && job.state !== 'succeeded' ? `/jobs/${job.id}` : `/jobs/${job.id}/logs`} size="xs" variant={hasEnded ? 'default' : 'filled'}>
          {t(hasEnded ? (job.state === 'succeeded' ? 'readLog' : 'whyEnded') : 'watchIt')}
        </Button>
      </Group>
    </Stack>
  );
}

function Next() {
  const t = useText(words);
  const session = useSession();
  const login = `berth login --server ${quote(location.origin)}`;
  return (
    <Stack gap="xs">
      <Group gap={4} wrap="nowrap">
        <Code block style={{ flex: 1, minWidth: 0, overflowX: 'auto' }} tabIndex={0}>
          {login}
        </Code>
        <CopyText text={login} label={t('copy')} />
      </Group>
      <Group gap="xs">
        <Button component={Link} to="/submit" variant="default" size="xs">
          {t('toOwn')}
        </Button>
        {session.has('templates') && (
          <Button component={Link} to="/templates" variant="default" size="xs">
            {t('toTemplates')}
          </Button>
        )}
        {session.has('notebook') && (
          <Button component={Link} to="/notebook" variant="default" size="xs">
            {t('toNotebook')}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

function Step({ number, title, text, progress, children }: { number: number; title: string; text: string; progress: Progress; children: ReactNode }) {
  const t = useText(words);
  return (
    <Paper withBorder p="md" component="section" aria-label={title} aria-current={progress === 'now' ? 'step' : undefined} style={progress === 'now' ? { borderColor: 'var(--mantine-primary-color-filled)' } : undefined}>
      <Stack gap="sm" h="100%">
        <Group gap="sm" wrap="nowrap">
          <ThemeIcon radius="xl" variant={progress === 'now' ? 'filled' : 'light'} aria-hidden="true">
            <Text fw={700} size="sm" span>
              {number}
            </Text>
          </ThemeIcon>
          <Title order={3} size="h6" style={{ flex: 1 }}>
            {title}
          </Title>
          {progress === 'done' && <Mark icon="check" color="teal" label={t('stepDone')} size="sm" />}
        </Group>
        <Text size="sm" c="dimmed">
          {text}
        </Text>
        {children}
      </Stack>
    </Paper>
  );
}
