/** Everything that happened to a job, and what the scheduler decided about it, each as a list that reads as sentences. */

import { Accordion, Button, Code, Grid, Group, Paper, Stack, Switch, Text, Timeline, Title } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useSearchParams } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { localized } from '@/text/moments';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon, type IconName } from '@/ui/Icon';
import { isJobState, Mark, Status } from '@/ui/Status';
import { When } from '@/ui/Times';

import type { Job } from '../queries';
import { words } from './text';

type Transition = Schemas['TransitionOut'];
type Decision = Schemas['DecisionOut'];
const PAGE = 100;

export default function Events({ job }: { job: Job }) {
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <History job={job} />
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <Decisions job={job} />
      </Grid.Col>
    </Grid>
  );
}

function History({ job }: { job: Job }) {
  const t = useText(words);
  const c = useText(common);
  const [search, setSearch] = useSearchParams();
  const all = search.get('all') === '1';
  const query = useInfiniteQuery({
    queryKey: ['job', job.id, 'events', all],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      take(api.GET('/api/v1/jobs/{job}/events', { params: { path: { job: job.id }, query: { limit: PAGE, ...(all ? { all } : {}), ...(pageParam ? { cursor: pageParam } : {}) } } })),
    getNextPageParam: (page) => page.next,
  });
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Paper withBorder p="md" component="section" aria-label={t('events')}>
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h4">
          {t('events')}
        </Title>
        <Switch label={t('withTasks')} checked={all} onChange={(event) => setSearch(event.currentTarget.checked ? { all: '1' } : {}, { replace: true })} />
      </Group>
      {query.error && <ProblemView error={query.error} retry={() => void query.refetch()} />}
      {query.isPending && <Loading />}
      <Timeline bulletSize={20} lineWidth={2} active={rows.length}>
        {rows.map((row) => (
          <Timeline.Item key={row.id} bullet={<Icon name={row.subject.kind === 'job' ? 'jobs' : 'cluster'} size={11} />} title={<Sentence row={row} />}>
            <Text size="sm" c="dimmed">
              <When at={row.at} /> · {t('by', { actor: row.actor })}
            </Text>
          </Timeline.Item>
        ))}
      </Timeline>
      {query.hasNextPage && (
        <Button mt="md" variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {c('more')}
        </Button>
      )}
    </Paper>
  );
}

function Sentence({ row }: { row: Transition }) {
  const t = useText(words);
  const format = useFormat();
  const kind = row.subject.kind;
  const subject = kind === 'job' ? t('subject_job') : kind === 'attempt' ? t('subject_attempt') : kind === 'task' ? t('subject_task') : '';
  const task = typeof row.detail.task === 'string' ? ` ${row.detail.task}` : '';
  return (
    <Group gap={6} component="span">
      <Text span size="sm" fw={600}>
        {subject}
        {task}
      </Text>
      {isJobState(row.to_state) ? <Status state={row.to_state} size="sm" /> : <Mark icon="clock" color="gray" label={row.to_state === 'pending' ? t('pending') : row.to_state === 'ended' ? t('ended') : row.to_state} size="sm" />}
      {row.reason_text && (
        <Text span size="sm">
          {localized(row.reason_text, format)}
        </Text>
      )}
    </Group>
  );
}

const KINDS = {
  start: { icon: 'play', color: 'blue' },
  wait_turned_start: { icon: 'play', color: 'blue' },
  evict: { icon: 'stop', color: 'orange' },
  claim: { icon: 'clock', color: 'cyan' },
  refuse: { icon: 'hourglass', color: 'yellow' },
} as const satisfies Record<Decision['kind'], { icon: IconName; color: string }>;

function Decisions({ job }: { job: Job }) {
  const t = useText(words);
  const c = useText(common);
  const query = useInfiniteQuery({
    queryKey: ['job', job.id, 'decisions'],
    initialPageParam: '',
    queryFn: ({ pageParam }) => take(api.GET('/api/v1/jobs/{job}/decisions', { params: { path: { job: job.id }, query: { limit: 50, ...(pageParam ? { cursor: pageParam } : {}) } } })),
    getNextPageParam: (page) => page.next,
  });
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Paper withBorder p="md" component="section" aria-label={t('decisions')}>
      <Title order={2} size="h4">
        {t('decisions')}
      </Title>
      <Text size="sm" c="dimmed" mb="sm">
        {t('decisionsHint')}
      </Text>
      {query.error && <ProblemView error={query.error} retry={() => void query.refetch()} />}
      {query.isPending && <Loading />}
      {query.data && rows.length === 0 && (
        <Empty icon="queues" title={t('none')} command={`berth explain ${job.id}`}>
          {t('noneHint')}
        </Empty>
      )}
      {rows.length > 0 && (
        <Accordion variant="separated" chevronPosition="right">
          {rows.map((row) => (
            <Accordion.Item key={row.id} value={row.id}>
              <Accordion.Control>
                <Stack gap={2}>
                  <Group gap="xs">
                    <Mark icon={KINDS[row.kind].icon} color={KINDS[row.kind].color} label={t(row.kind)} size="sm" />
                    {row.pool && <Text size="sm">{t('pool', { pool: row.pool })}</Text>}
                    <Text size="sm" c="dimmed">
                      <When at={row.at} />
                    </Text>
                  </Group>
                  <Told row={row} />
                </Stack>
              </Accordion.Control>
              <Accordion.Panel>
                <Text size="xs" c="dimmed" mb={4}>
                  {t('raw')}
                </Text>
                <Code block tabIndex={0} mah="24rem" style={{ overflow: 'auto' }}>
                  {JSON.stringify(row.detail, null, 2)}
                </Code>
              </Accordion.Panel>
            </Accordion.Item>
          ))}
        </Accordion>
      )}
      {query.hasNextPage && (
        <Button mt="md" variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {c('more')}
        </Button>
      )}
    </Paper>
  );
}

/** The parts of a decision that read as words; the rest is in its document. */
function Told({ row }: { row: Decision }) {
  const t = useText(words);
  const format = useFormat();
  const detail = row.detail as {
    nodes?: unknown;
    candidates?: unknown;
    waited_seconds?: unknown;
    standing?: unknown;
    reason?: { text?: unknown };
  };
  const parts: string[] = [];
  if (Array.isArray(detail.nodes) && detail.nodes.length > 0) parts.push(t('nodes', { nodes: detail.nodes.slice(0, 6).join(', ') + (detail.nodes.length > 6 ? ' …' : '') }));
  if (typeof detail.candidates === 'number') parts.push(t('candidates', { count: detail.candidates }));
  if (typeof detail.waited_seconds === 'number' && detail.waited_seconds > 0) parts.push(t('waited', { duration: format.duration(detail.waited_seconds) }));
  if (typeof detail.standing === 'string') parts.push(t('standing', { standing: detail.standing.replaceAll('_', ' ') }));
  if (typeof detail.reason?.text === 'string') parts.push(localized(detail.reason.text, format));
  if (parts.length === 0) return null;
  return <Text size="sm">{parts.join(' · ')}</Text>;
}
