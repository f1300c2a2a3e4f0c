/** The two lines of a queue. Only the rows in sight are drawn, and pages are read as one scrolls: ten thousand waiting jobs cost no more. */

import { Anchor, Text } from '@mantine/core';
import { useCallback, useMemo, type ReactNode } from 'react';
import { Link } from 'react-router';

import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Rows, type Column } from '@/ui/Rows';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { runningRow, useLine, waitingRow, type BoardJob, type RunningRow, type WaitingRow } from './reads';
import { words } from './text';

/** As high as its rows, up to a bound: two lines stand beside each other. */
function heightFor(rows: number, rowHeight: number): string {
  return `min(26rem, max(12rem, ${rows * rowHeight + 44}px))`;
}

export function Running({ queueId, total }: { queueId: string; total: number | undefined }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const line = useLine(queueId, 'running');
  const rows = useMemo(() => (line.data?.pages ?? []).flatMap((page) => page.items.map(runningRow)), [line.data]);
  const more = useMore(line);
  const columns = useMemo<Column<RunningRow>[]>(
    () => [
      { key: 'job', header: t('job'), width: 'minmax(8rem, 2fr)', cell: (row) => <JobLink job={row.job} /> },
      { key: 'user', header: w('user'), width: 'minmax(4rem, 1fr)', cell: (row) => <Small>{row.user ?? t('anotherTenant')}</Small> },
      { key: 'gpus', header: w('gpus'), width: '3.5rem', cell: (row) => <Small>{format.milli(row.gpu_millis)}</Small> },
      { key: 'since', header: t('since'), width: '8rem', cell: (row) => <When at={row.started_at} size="sm" /> },
      ...(rows.some((row) => row.borrowed !== null)
        ? [
            {
              key: 'stands',
              header: t('stands'),
              width: '7rem',
              isMinor: true,
              cell: (row: RunningRow) => (row.borrowed === null ? '–' : row.borrowed ? <Mark icon="refresh" color="orange" label={t('isBorrowed')} size="sm" /> : <Mark icon="check" color="teal" label={t('isPromised')} size="sm" />),
            },
          ]
        : []),
    ],
    [t, w, format, rows],
  );
  if (line.error && rows.length === 0) return <ProblemView error={line.error} retry={() => void line.refetch()} />;
  if (line.isPending) return <Loading />;
  if (rows.length === 0) {
    return (
      <Empty icon="play" title={t('noneRuns')} command="berth submit job.yaml">
        {t('noneRunsHint')}
      </Empty>
    );
  }
  return <Rows label={t('running')} rows={rows} columns={columns} rowKey={(row) => row.job?.id ?? ''} height={heightFor(rows.length, 44)} onEnd={more} total={total} />;
}

export function Waiting({ queueId, total }: { queueId: string; total: number | undefined }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const line = useLine(queueId, 'waiting');
  const rows = useMemo(() => (line.data?.pages ?? []).flatMap((page) => page.items.map(waitingRow)), [line.data]);
  const more = useMore(line);
  const hasPlaces = rows.some((row) => row.position !== null);
  const hasExpected = rows.some((row) => row.expected_start !== null);
  const columns = useMemo<Column<WaitingRow>[]>(
    () => [
      ...(hasPlaces
        ? [{ key: 'place', header: t('place'), width: '3.5rem', cell: (row: WaitingRow) => <Small>{row.position === null ? '–' : format.number(row.position)}</Small> }]
        : [{ key: 'priority', header: t('priority'), width: '4.5rem', isMinor: true, cell: (row: WaitingRow) => <Small>{row.priority === null ? '–' : format.number(row.priority)}</Small> }]),
      { key: 'job', header: t('job'), width: 'minmax(7rem, 1fr)', cell: (row) => <JobLink job={row.job} note={row.user} /> },
      { key: 'gpus', header: w('gpus'), width: '3.5rem', isMinor: true, cell: (row) => <Small>{format.milli(row.gpu_millis)}</Small> },
      {
        key: 'why',
        header: t('why'),
        width: 'minmax(8rem, 2.5fr)',
        cell: (row) => (
          <Text size="sm" lineClamp={2} title={[row.reason, row.hint].filter(Boolean).join('\n')} style={{ whiteSpace: 'normal' }}>
            {row.reason || '–'}
          </Text>
        ),
      },
      ...(hasExpected ? [{ key: 'expected', header: t('expected'), width: '7.5rem', isMinor: true, cell: (row: WaitingRow) => (row.expected_start ? <When at={row.expected_start} size="sm" /> : t('unknown')) }] : []),
    ],
    [t, w, format, hasPlaces, hasExpected],
  );
  if (line.error && rows.length === 0) return <ProblemView error={line.error} retry={() => void line.refetch()} />;
  if (line.isPending) return <Loading />;
  if (rows.length === 0) {
    return (
      <Empty icon="check" title={t('noneWaits')}>
        {t('noneWaitsHint')}
      </Empty>
    );
  }
  return <Rows label={t('waiting')} rows={rows} columns={columns} rowKey={(row) => row.job?.id ?? ''} rowHeight={56} height={heightFor(rows.length, 56)} onEnd={more} total={total} />;
}

function useMore(line: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }): () => void {
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = line;
  return useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
}

function Small({ children }: { children: ReactNode }) {
  return (
    <Text size="sm" truncate>
      {children}
    </Text>
  );
}

function JobLink({ job, note }: { job: BoardJob | null; note?: string | null }) {
  const t = useText(words);
  if (!job) return <Text size="sm" c="dimmed">{t('anotherTenant')}</Text>;
  return (
    <>
      <Anchor component={Link} to={`/jobs/${job.id}`} size="sm" fw={500} title={job.name}>
        {job.name}
      </Anchor>
      {note && (
        <Text size="xs" c="dimmed" truncate>
          {note}
        </Text>
      )}
    </>
  );
}
