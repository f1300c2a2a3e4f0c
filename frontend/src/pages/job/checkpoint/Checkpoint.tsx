/** The last checkpoint of a job: whether an attempt can go on from it, how old and large it is, what an eviction would cost, its files. */

import { Alert, Anchor, Button, Group, Paper, Stack, Table, Text, Title, type MantineColor } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { Link } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { useSession } from '@/api/session';
import { sayHours, sayMoney } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Answer } from '@/ui/Feedback';
import { Icon, type IconName } from '@/ui/Icon';
import { PagedView } from '@/ui/PagedView';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { costQuery, hasEnded, isArray, rightsTo, specQuery, type Job } from '../queries';
import { words } from './text';

type Kept = Schemas['CheckpointOut'];
const EVERY_MS = 15_000;

const LOOK = {
  none: { icon: 'info', color: 'gray' },
  writing: { icon: 'refresh', color: 'blue' },
  ready: { icon: 'check', color: 'teal' },
  checking: { icon: 'hourglass', color: 'yellow' },
  unreadable: { icon: 'cross', color: 'red' },
  removed: { icon: 'trash', color: 'gray' },
} as const satisfies Record<Kept['state'], { icon: IconName; color: MantineColor }>;
const HAS_FILES: ReadonlySet<Kept['state']> = new Set(['writing', 'ready', 'checking', 'unreadable']);

/** Nothing where the job file asks for none. */
export function Checkpoint({ job }: { job: Job }) {
  const spec = useQuery(specQuery(job.id));
  return spec.data && 'checkpoint' in spec.data && !isArray(job) ? <Card job={job} /> : null;
}

/** What the state is to the reader: an attempt goes on from it while the job lives, and afterwards only another job can. Into a
 * volume that a job mounts the platform does not look. */
function meaning(kept: Kept, isOver: boolean): keyof typeof words.en {
  if (isMounted(kept)) return 'mountedText';
  return isOver && (kept.state === 'none' || kept.state === 'ready') ? `${kept.state}Ended` : `${kept.state}Text`;
}

function isMounted(kept: Kept): boolean {
  return kept.state === 'none' && kept.path.startsWith('/');
}

export function Card({ job }: { job: Job }) {
  const t = useText(words);
  const query = useQuery({
    queryKey: ['job', job.id, 'checkpoint'],
    retry: false,
    // After the end it is measured once more, and then kept until a day that is told.
    refetchInterval: ({ state: { data } }) => (hasEnded(job) && (data?.kept_until || (data && isMounted(data))) ? false : EVERY_MS),
    queryFn: () => take(api.GET('/api/v1/jobs/{job}/checkpoint', { params: { path: { job: job.id } } })),
  });
  return (
    <Paper withBorder p="md" component="section" aria-label={t('title')}>
      <Answer query={query} lines={3}>
        {(kept) => (
          <Stack gap="xs">
            <Group gap="xs">
              <Title order={2} size="h4">
                {t('title')}
              </Title>
              <Mark {...LOOK[kept.state]} label={t(isMounted(kept) ? 'mounted' : kept.state)} />
            </Group>
            <Text size="sm">
              <Said text={t(meaning(kept, hasEnded(job)), { path: kept.path, signal: kept.signal, problem: kept.problem })} />
            </Text>
            {kept.if_evicted_now && kept.state !== 'unreadable' && <Evicted job={job} lost={kept.if_evicted_now} />}
            <Facts kept={kept} isOver={hasEnded(job)} />
            {HAS_FILES.has(kept.state) && <Files job={job} />}
          </Stack>
        )}
      </Answer>
    </Paper>
  );
}

function Evicted({ job, lost }: { job: Job; lost: NonNullable<Kept['if_evicted_now']> }) {
  const t = useText(words);
  const format = useFormat();
  const session = useSession();
  // The amount comes without its currency; the job's own cost says which it is.
  const cost = useQuery({ ...costQuery(job.id), enabled: lost.lost_cost !== null && session.has('billing') && rightsTo(job, session).edit });
  const values = { duration: format.duration(lost.lost_seconds), hours: sayHours(format, lost.lost_gpu_seconds * 1000) };
  const text =
    lost.lost_seconds === 0
      ? t('evictedNothing')
      : lost.lost_cost !== null && cost.data
        ? t('evictedCost', { ...values, cost: sayMoney(format, lost.lost_cost, cost.data.currency) })
        : t('evicted', values);
  return (
    <Alert color="blue" icon={<Icon name="info" />} p="xs">
      {text}
    </Alert>
  );
}

function Facts({ kept, isOver }: { kept: Kept; isOver: boolean }) {
  const t = useText(words);
  const format = useFormat();
  const size = { size: format.bytes(kept.size_bytes), count: kept.file_count };
  const rows: [string, ReactNode][] = [
    [t('directory'), <Said text={t(`per_${kept.per}`, { path: kept.path })} key="path" />],
    ...(kept.saved_at ? [[t('saved'), <When key="at" at={kept.saved_at} />] as [string, ReactNode]] : []),
    ...(kept.file_count > 0 ? [[t('size'), kept.quota_bytes > 0 ? t('ofQuota', { ...size, quota: format.bytes(kept.quota_bytes) }) : t('plainSize', size)] as [string, ReactNode]] : []),
    ...(kept.interval_seconds && !isOver ? [[t('interval'), format.duration(kept.interval_seconds)] as [string, ReactNode]] : []),
    ...(isOver ? [] : [[t('signal'), t('signalText', { signal: kept.signal, grace: format.duration(kept.grace_seconds) })] as [string, ReactNode]]),
    ...(kept.started_from
      ? [
          [
            t('from'),
            <Anchor key="from" component={Link} to={`/jobs/${kept.started_from}`} size="sm">
              {t('fromJob')}
            </Anchor>,
          ] as [string, ReactNode],
        ]
      : []),
    ...(kept.kept_until ? [[t('keptUntil'), format.time(kept.kept_until)] as [string, ReactNode]] : []),
  ];
  return (
    <Table verticalSpacing={5} withRowBorders={false}>
      <Table.Tbody>
        {rows.map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th w="9rem" fw={500} style={{ verticalAlign: 'top' }}>
              {name}
            </Table.Th>
            <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Files({ job }: { job: Job }) {
  const t = useText(words);
  const [isOpen, setOpen] = useState(false);
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Button size="xs" variant="default" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} leftSection={<Icon name="data" size={14} />}>
          {t(isOpen ? 'hideFiles' : 'files')}
        </Button>
        <Button component="a" href={`/api/v1/jobs/${job.id}/checkpoint/archive`} download size="xs" variant="default" leftSection={<Icon name="download" size={14} />}>
          {t('archive')}
        </Button>
      </Group>
      {isOpen && <Folder job={job} />}
    </Stack>
  );
}

function Folder({ job }: { job: Job }) {
  const t = useText(words);
  const format = useFormat();
  const [path, setPath] = useState('');
  const files = usePaged(['job', job.id, 'checkpoint', 'files', path], (cursor) =>
    take(api.GET('/api/v1/jobs/{job}/checkpoint/files', { params: { path: { job: job.id }, query: { ...(path ? { path } : {}), cursor } } })),
  );
  const above = path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '';
  return (
    <Stack gap={4}>
      {path !== '' && (
        <Anchor component="button" type="button" size="sm" ta="start" onClick={() => setPath(above)}>
          ← {t('up', { name: above || t('root') })}
        </Anchor>
      )}
      <PagedView
        list={files}
        empty={
          <Text size="sm" c="dimmed">
            {t('empty')}
          </Text>
        }
      >
        {(rows) => (
            <Table verticalSpacing={3} aria-label={t('files')}>
              <Table.Tbody>
                {rows.map((file) => {
                  const name = file.path.split('/').at(-1) ?? file.path;
                  return (
                    <Table.Tr key={file.path}>
                      <Table.Td style={{ overflowWrap: 'anywhere' }}>
                        {file.kind === 'directory' ? (
                          <Anchor component="button" type="button" size="sm" ta="start" aria-label={t('open', { name })} onClick={() => setPath(file.path)}>
                            <bdi>{name}</bdi>/
                          </Anchor>
                        ) : file.kind === 'file' ? (
                          <Anchor href={`/api/v1/jobs/${job.id}/checkpoint/content?path=${encodeURIComponent(file.path)}`} download size="sm" aria-label={t('get', { name })}>
                            <bdi>{name}</bdi>
                          </Anchor>
                        ) : (
                          <bdi>{name}</bdi>
                        )}
                      </Table.Td>
                      <Table.Td ta="right" style={{ whiteSpace: 'nowrap' }}>
                        {file.kind === 'file' && format.bytes(file.size_bytes)}
                      </Table.Td>
                    </Table.Tr>
                  );
                })}
              </Table.Tbody>
            </Table>
        )}
      </PagedView>
    </Stack>
  );
}
