/** What an attempt left behind, to be downloaded. Nothing of it is ever shown in the page: it is somebody's file. */

import { ActionIcon, Alert, Button, Group, Stack, Text, Tooltip } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useCallback, useMemo } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Rows, type Column } from '@/ui/Rows';
import { Said } from '@/ui/Said';
import { When } from '@/ui/Times';

import { AttemptChoice, useAttempt } from '../AttemptChoice';
import { hasEnded, type Job } from '../queries';
import { words } from './text';

type Artifact = Schemas['ArtifactOut'];

const STORING_MS = 3_000;

export default function Artifacts({ job }: { job: Job }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const attempt = useAttempt(job);
  const query = useInfiniteQuery({
    queryKey: ['job', job.id, 'artifacts', attempt],
    initialPageParam: '',
    queryFn: ({ pageParam }) => {
      // The description lacks the usual pair of a page here.
      const page = { limit: 200, ...(pageParam ? { cursor: pageParam } : {}) };
      return take(api.GET('/api/v1/jobs/{job}/artifacts', { params: { path: { job: job.id }, query: { ...page, ...(attempt === null ? {} : { attempt }) } } }));
    },
    getNextPageParam: (page) => page.next,
    refetchInterval: ({ state: { data } }) => (hasEnded(job) && data && !data.pages[0]?.complete ? STORING_MS : false), // No event tells of it.
  });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage({ cancelRefetch: false });
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const columns = useMemo<Column<Artifact>[]>(
    () => [
      { key: 'path', header: t('path'), width: 'minmax(10rem, 3fr)', cell: (row) => <span title={row.path}>{row.path}</span> },
      { key: 'size', header: t('size'), width: '6.5rem', cell: (row) => format.bytes(row.size_bytes) },
      { key: 'sha', header: t('checksum'), width: '9rem', cell: (row) => <code title={row.sha256}>{row.sha256.slice(0, 12)}</code>, isMinor: true },
      { key: 'at', header: t('stored'), width: '9rem', cell: (row) => <When at={row.created_at} />, isMinor: true },
      { key: 'get', header: c('download'), width: '5.5rem', cell: (row) => <Get href={addressOf(job, row.path, attempt)} label={t('downloadFile', { path: row.path })} /> },
    ],
    [t, c, format, job, attempt],
  );
  if (query.error && !query.data) return <ProblemView error={query.error} retry={() => void query.refetch()} />;
  if (!query.data) return <Loading />;
  const head = query.data.pages[0];
  const isLate = !hasEnded(job) || !head?.complete;
  return (
    <Stack>
      <Group>
        <AttemptChoice job={job} />
        {rows.length > 0 && (
          <Text size="sm" c="dimmed">
            {hasNextPage ? t('sumMore', { count: rows.length }) : t('sum', { count: rows.length, size: format.bytes(rows.reduce((sum, row) => sum + row.size_bytes, 0)) })}
            {!head?.complete && ` · ${t('storing')}`}
          </Text>
        )}
        {rows.length > 0 && head?.complete && (
          <Button component="a" href={`/api/v1/jobs/${job.id}/artifacts:archive${attempt === null ? '' : `?attempt=${attempt}`}`} download size="compact-sm" variant="default" leftSection={<Icon name="download" size={14} />}>
            {t('all')}
          </Button>
        )}
      </Group>
      {head?.marker && (
        <Alert color="yellow" icon={<Icon name="alert" />} title={t('left')}>
          {head.marker}
        </Alert>
      )}
      {rows.length === 0 ? (
        <Empty icon="download" title={isLate ? t('notYet') : t('none')} command={`berth cp ${job.id}: .`}>
          <Said text={isLate ? t('notYetHint') : t('noneHint')} />
        </Empty>
      ) : (
        <Rows label={t('artifacts')} rows={rows} columns={columns} rowKey={(row) => row.path} onEnd={onEnd} height="max(16rem, calc(100vh - 22rem))" />
      )}
    </Stack>
  );
}

function addressOf(job: Job, path: string, attempt: number | null): string {
  const safe = path.split('/').map(encodeURIComponent).join('/');
  return `/api/v1/jobs/${job.id}/artifacts/${safe}${attempt === null ? '' : `?attempt=${attempt}`}`;
}

function Get({ href, label }: { href: string; label: string }) {
  return (
    <Tooltip label={label}>
      <ActionIcon component="a" href={href} download variant="subtle" aria-label={label}>
        <Icon name="download" size={16} />
      </ActionIcon>
    </Tooltip>
  );
}
