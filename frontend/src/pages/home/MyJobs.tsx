/** One's own jobs that wait or run, with why and until when; and those that failed, in words. */

import { Anchor, Divider, Group, Stack, Text } from '@mantine/core';
import { useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Answer } from '@/ui/Feedback';
import { Said } from '@/ui/Said';
import { Status } from '@/ui/Status';
import { StopReason } from '@/ui/StopReason';
import { Elapsed, useNow, When } from '@/ui/Times';

import { Card } from './Card';
import { useExpected } from './reads';
import { words } from './text';

type Job = Schemas['JobOut'];
type Expected = Schemas['ExpectedOut'] | null;

export function Active({ query }: { query: UseQueryResult<Schemas['JobPage']> }) {
  const t = useText(words);
  const waiting = (query.data?.items ?? []).filter((job) => job.state === 'queued' && !job.hold).map((job) => job.id);
  const expected = useExpected(waiting);
  return (
    <Card title={t('mine')} to="/jobs?mine=true&state=queued&state=admitted&state=starting&state=running&state=stopping" more={t('seeAll')}>
      <Answer query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <Text c="dimmed" size="sm">
              {t('mineNone')}
            </Text>
          ) : (
            <Stack gap="sm">
              {page.items.map((job, index) => (
                <Stack key={job.id} gap="sm">
                  {index > 0 && <Divider />}
                  <Going job={job} expected={expected.data?.get(job.id)} />
                </Stack>
              ))}
            </Stack>
          )
        }
      </Answer>
    </Card>
  );
}

function Going({ job, expected }: { job: Job; expected: Expected | undefined }) {
  const t = useText(words);
  const format = useFormat();
  const cache = useQueryClient();
  const isWaiting = job.state === 'queued';
  const [reason, setReason] = useState('');
  const stop = async () => {
    await take(api.POST('/api/v1/jobs/{job}/stop', { params: { path: { job: job.id } }, body: { reason: reason.trim() || undefined } }));
    await cache.invalidateQueries({ queryKey: ['my-jobs'] });
  };
  return (
    <Group justify="space-between" wrap="nowrap" align="flex-start">
      <Stack gap={2} style={{ minWidth: 0 }}>
        <Group gap="xs">
          <Anchor component={Link} to={`/jobs/${job.id}`} fw={600} style={{ overflowWrap: 'anywhere' }}>
            {job.name}
          </Anchor>
          <Status state={job.state} size="sm" />
          <Text size="sm" c="dimmed" span>
            {job.resources.gpu_millis > 0 ? t('gpus', { count: format.milli(job.resources.gpu_millis), one: job.resources.gpu_millis / 1000 }) : t('cores', { count: format.milli(job.resources.cpu_millis), one: job.resources.cpu_millis / 1000 })}
            {job.gpus_simulated ? ` (${t('simulated')})` : ''} · <bdi>{job.tenant.name}</bdi>
          </Text>
        </Group>
        {isWaiting && job.reason && (
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            <Said text={job.reason.text} />{' '}
            <Anchor component={Link} to={`/jobs/${job.id}`} size="sm" underline="always">
              {t('whyNot')}
            </Anchor>
          </Text>
        )}
        <Text size="sm" c="dimmed">
          <Times job={job} isWaiting={isWaiting} />
          {isWaiting && expected !== undefined && <Expecting expected={expected} />}
        </Text>
      </Stack>
      {job.state !== 'stopping' && (
        <Confirm label={t('stop')} title={t('stop')} color="red" variant="subtle" size="compact-sm" style={{ flexShrink: 0 }} act={stop}>
          <Stack>
            <Text>{t('stopAsk', { name: job.name })}</Text>
            <StopReason value={reason} change={setReason} />
          </Stack>
        </Confirm>
      )}
    </Group>
  );
}

function Times({ job, isWaiting }: { job: Job; isWaiting: boolean }) {
  const t = useText(words);
  const format = useFormat();
  const now = useNow();
  const [before, after] = t(isWaiting || !job.started_at ? 'waitsFor' : 'runsFor', { time: '\n' }).split('\n');
  const end = job.started_at && job.max_runtime_seconds !== null ? new Date(Date.parse(job.started_at) + job.max_runtime_seconds * 1000).toISOString() : null;
  return (
    <>
      {before}
      <Elapsed from={isWaiting ? job.submitted_at : (job.started_at ?? job.submitted_at)} to={null} />
      {after}
      {end && !isWaiting && <span title={format.timeWithZone(end)}> · {t('endsBy', { when: format.ago(end, now) })}</span>}
    </>
  );
}

function Expecting({ expected }: { expected: Expected }) {
  const t = useText(words);
  const format = useFormat();
  const now = useNow();
  if (!expected?.p50_at) return <> · {expected?.p90_at ? t('expectedAtLatest', { late: format.time(expected.p90_at) }) : expected?.known_by ? t('notYet', { time: format.time(expected.known_by) }) : t('noExpectation')}</>;
  const title = expected.p90_at ? t('expectedBy', { early: format.time(expected.p50_at), late: format.time(expected.p90_at) }) : format.time(expected.p50_at);
  return (
    <span title={title}>
      {' '}
      · {t('expected', { when: format.ago(expected.p50_at, now) })}
    </span>
  );
}

export function Failed({ query }: { query: UseQueryResult<Schemas['JobPage']> }) {
  const t = useText(words);
  return (
    <Card title={t('failed')} to="/jobs?mine=true&state=failed&sort=finished" more={t('seeAll')}>
      <Answer query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <Text c="dimmed" size="sm">
              {t('failedNone')}
            </Text>
          ) : (
            <Stack gap="sm">
              {page.items.map((job, index) => (
                <Stack key={job.id} gap="sm">
                  {index > 0 && <Divider />}
                  <Stack gap={2}>
                    <Group gap="xs" justify="space-between">
                      <Group gap="xs">
                        <Anchor component={Link} to={`/jobs/${job.id}`} fw={600} style={{ overflowWrap: 'anywhere' }}>
                          {job.name}
                        </Anchor>
                        <Text size="sm" span style={{ overflowWrap: 'anywhere' }}>
                          <Said text={job.exit?.reason ?? job.reason?.text} />
                        </Text>
                      </Group>
                      <Text size="sm" c="dimmed" span>
                        <When at={job.ended_at} />
                      </Text>
                    </Group>
                    {job.exit && (
                      <Text size="sm" c="dimmed">
                        <Said text={[job.exit.text, job.exit.hint]} />
                      </Text>
                    )}
                  </Stack>
                </Stack>
              ))}
            </Stack>
          )
        }
      </Answer>
    </Card>
  );
}
