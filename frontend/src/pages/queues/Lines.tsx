/** The two lines of a queue. Only the rows in sight are drawn, and more is read as one scrolls: ten thousand waiting jobs cost no more. */

import { Anchor, Text } from '@mantine/core';
import { useMemo, type ReactNode } from 'react';
import { Link } from 'react-router';

import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Empty } from '@/ui/Feedback';
import { plain } from '@/ui/plain';
import { Rows, type Column } from '@/ui/Rows';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';
import { useNow, When } from '@/ui/Times';

import type { RunningRow, WaitingRow } from './reads';
import { words } from './text';

const ROW_HEIGHT = 56;

/** As high as its rows, up to a bound: two lines stand beside each other. */
function heightFor(rows: number): string {
  return `min(28rem, max(12rem, ${rows * ROW_HEIGHT + 44}px))`;
}

export function Running({ rows, total, more }: { rows: readonly RunningRow[]; total: number; more: () => void }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const columns = useMemo<Column<RunningRow>[]>(
    () => [
      { key: 'job', header: t('job'), width: 'minmax(8rem, 2fr)', cell: (row) => <JobLink row={row} /> },
      { key: 'gpus', header: w('gpus'), width: '3.5rem', cell: (row) => <Small>{format.number(row.gpus, 3)}</Small> },
      { key: 'since', header: t('since'), width: '7.5rem', cell: (row) => (row.started_at ? <When at={row.started_at} size="sm" /> : <Small>{w(row.state)}</Small>) },
      {
        key: 'stands',
        header: t('stands'),
        width: '8.5rem',
        cell: (row) => (row.borrowed ? <Mark icon="refresh" color="orange" label={t('isBorrowed')} size="sm" /> : <Mark icon="check" color="teal" label={t('isPromised')} size="sm" />),
      },
    ],
    [t, w, format],
  );
  if (rows.length === 0) {
    return (
      <Empty icon="play" title={t('noneRuns')} command="berth submit job.yaml">
        {t('noneRunsHint')}
      </Empty>
    );
  }
  return <Rows label={t('running')} rows={rows} columns={columns} rowKey={(row, index) => row.job?.id ?? `other ${index}`} rowHeight={ROW_HEIGHT} height={heightFor(rows.length)} onEnd={more} total={total} />;
}

export function Waiting({ rows, total, more }: { rows: readonly WaitingRow[]; total: number; more: () => void }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const columns = useMemo<Column<WaitingRow>[]>(
    () => [
      { key: 'place', header: t('place'), width: '3rem', cell: (row) => <Small title={t('priorityIs', { n: row.priority })}>{row.hold ? t('held') : row.position === null ? '–' : format.number(row.position)}</Small> },
      { key: 'job', header: t('job'), width: 'minmax(6rem, 1fr)', cell: (row) => <JobLink row={row} /> },
      { key: 'gpus', header: w('gpus'), width: '3.5rem', isMinor: true, cell: (row) => <Small>{format.number(row.gpus, 3)}</Small> },
      {
        key: 'why',
        header: t('why'),
        width: 'minmax(8rem, 2fr)',
        cell: (row) => (
          <Text size="sm" lineClamp={2} title={plain([row.reason?.text, row.reason?.hint].filter(Boolean).join('\n'))} style={{ whiteSpace: 'normal' }}>
            <Said text={row.reason?.text ?? '–'} />
          </Text>
        ),
      },
      {
        key: 'expected',
        header: t('expected'),
        width: '8.5rem',
        isMinor: true,
        cell: (row) => {
          const told = row.expected_start;
          return told?.p50_at ? (
            <span title={told.p90_at ? t('byAtLatest', { time: format.time(told.p90_at) }) : undefined}>
              <Expected at={told.p50_at} />
            </span>
          ) : (
            <Text size="sm" c="dimmed" title={told?.was_by ? t('wasBy', { time: format.time(told.was_by) }) : undefined}>
              {told?.was_by ? t('overdue') : told?.p90_at ? t('byAtLatest', { time: format.time(told.p90_at) }) : told?.known_by ? t('notYet', { time: format.time(told.known_by) }) : t('unknown')}
            </Text>
          );
        },
      },
    ],
    [t, w, format],
  );
  if (rows.length === 0) {
    return (
      <Empty icon="check" title={t('noneWaits')}>
        {t('noneWaitsHint')}
      </Empty>
    );
  }
  return <Rows label={t('waiting')} rows={rows} columns={columns} rowKey={(row, index) => row.job?.id ?? `other ${index}`} rowHeight={ROW_HEIGHT} height={heightFor(rows.length)} onEnd={more} total={total} />;
}

/** What should have begun by now is late: a time that is past would say nothing. */
function Expected({ at }: { at: string }) {
  const t = useText(words);
  const now = useNow();
  if (Date.parse(at) > now) return <When at={at} size="sm" />;
  return <Mark icon="clock" color="yellow" label={t('late')} size="sm" />;
}

function Small({ children, title }: { children: ReactNode; title?: string }) {
  return (
    <Text size="sm" truncate title={title}>
      {children}
    </Text>
  );
}

function JobLink({ row }: { row: { job: { id: string; name: string } | null; user: { name: string } | null; queue: { name: string } | null; tenant: string | null } }) {
  const t = useText(words);
  if (!row.job) return <Small>{t('anotherTenant')}</Small>;
  return (
    <>
      <Anchor component={Link} to={`/jobs/${row.job.id}`} size="sm" fw={500} title={row.job.name} display="block" truncate>
        {row.job.name}
      </Anchor>
      <Text size="xs" c="dimmed" truncate>
        {[row.user?.name, row.queue?.name].filter(Boolean).join(' · ')}
      </Text>
    </>
  );
}
