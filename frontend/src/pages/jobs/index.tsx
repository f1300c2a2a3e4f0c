/** The list of jobs: found by filters in the address, kept right by events, changed many at a time. */

import { Box, Button, Group, Stack, Text } from '@mantine/core';
import { useCallback, useMemo, useRef, useState } from 'react';
import { Link, useSearchParams } from 'react-router';

import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { useColumnChoice } from '@/ui/ColumnMenu';
import { CopyAs, curl, quote, type Ways } from '@/ui/CopyAs';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify, notifyProblem } from '@/ui/notify';
import { Page } from '@/ui/Page';
import { Rows, type Column, type RowsHandle } from '@/ui/Rows';
import { When } from '@/ui/Times';

import { Bulk } from './Bulk';
import { Gpus, Lengths, Name, StateAndWhy, Tick, TickAll, Where, WhereItRuns } from './Cells';
import { exportJobs } from './export';
import { Active, More, Quick, SearchField, StateChips } from './Filters';
import { isFiltered, readFilters, toPairs, writeFilters, type Filters, type JobQuery } from './filters';
import classes from './Jobs.module.css';
import { useListKeys } from './keys';
import { useCounts, useJobList } from './list';
import type { Job } from './merge';
import { Saved } from './Saved';
import { Selection } from './selection';
import { words } from './text';

const ROW_PX = 56;
const keyOf = (job: Job) => job.id;

export default function Jobs() {
  const t = useText(words);
  const session = useSession();
  const [search, setSearch] = useSearchParams();
  const filters = useMemo(() => readFilters(search), [search]);
  const [selection] = useState(() => new Selection());
  const { query, rows, list, more, onTop, heldBack, showNew, update } = useJobList(filters);
  const counts = useCounts(filters);
  const latest = useRef({ filters, rows });
  latest.current = { filters, rows };
  const handle = useRef<RowsHandle>(null);
  const place = useRef<HTMLDivElement>(null);
  const mayAct = session.isOperator || session.may('member');

  const change = useCallback(
    (changes: Partial<Filters>) => {
      selection.clear();
      setSearch(writeFilters({ ...latest.current.filters, ...changes }), { replace: true });
    },
    [selection, setSearch],
  );
  const clear = useCallback(() => change({ ...readFilters(new URLSearchParams()), sort: latest.current.filters.sort }), [change]);
  const onTag = useCallback((tag: string) => change({ tag: [...new Set([...latest.current.filters.tag, tag])] }), [change]);
  const all = useCallback(() => latest.current.rows.map(keyOf), []);
  const find = useCallback((ids: readonly string[]) => {
    const chosen = new Set(ids);
    return latest.current.rows.filter((job) => chosen.has(job.id));
  }, []);
  const columns = useColumns({ selection, all, onTag, mayAct });
  const { visibility, menu } = useColumnChoice('jobs', columns);
  useListKeys({
    place,
    count: rows.length,
    move: useCallback((index: number) => handle.current?.focus(index), []),
    toggle: useCallback(
      (index: number) => {
        const job = latest.current.rows[index];
        if (job && mayAct) selection.toggle(job.id, all(), false);
      },
      [selection, all, mayAct],
    ),
  });

  // Kept as they are while rows come and change: with a hundred changes a second the rows alone are drawn anew.
  const actions = useMemo(
    () => (
      <>
        <Group gap="xs" visibleFrom="sm">
          <ExportButton query={query} />
          <CopyAs ways={() => waysOf(query)} />
        </Group>
        {session.may('member') && (
          <Button component={Link} to="/submit" leftSection={<Icon name="submit" size={16} />}>
            {t('submit')}
          </Button>
        )}
      </>
    ),
    [query, session, t],
  );
  const tools = useMemo(
    () => (
      <Group gap="sm">
        <SearchField value={filters.q} change={change} />
        <Quick filters={filters} change={change} />
        <More filters={filters} change={change} />
        <Saved current={writeFilters(filters).toString()} apply={(text) => setSearch(writeFilters(readFilters(new URLSearchParams(text))))} />
        <Box visibleFrom="sm">{menu}</Box>
      </Group>
    ),
    [filters, change, setSearch, menu],
  );
  const chips = useMemo(
    () => (
      <>
        <StateChips filters={filters} counts={counts} change={change} />
        <Active filters={filters} change={change} clear={clear} />
      </>
    ),
    [filters, counts, change, clear],
  );

  return (
    <Page wide title={t('title')} actions={actions}>
      <Stack gap="sm">
        {tools}
        <Bulk selection={selection} find={find} update={update}>
          {chips}
        </Bulk>
        <div ref={place}>
          {list.error && rows.length === 0 ? (
            <ProblemView error={list.error} retry={() => void list.refetch()} />
          ) : list.isPending ? (
            <Loading lines={8} />
          ) : rows.length === 0 ? (
            <Nothing isFiltered={isFiltered(filters)} mayAct={session.may('member')} clear={clear} />
          ) : (
            <Stack gap={6}>
              <Rows label={t('list')} rows={rows} columns={columns} visibility={visibility} rowKey={keyOf} rowHeight={ROW_PX} height="calc(100dvh - 17.5rem)" onEnd={more} onTop={onTop} handle={handle} />
              <Group justify="space-between">
                {list.isFetchNextPageError && (
                  <Button size="compact-sm" color="red" variant="light" onClick={() => void list.fetchNextPage()}>
                    {t('moreFailed')}
                  </Button>
                )}
                <Text size="xs" c="dimmed" role="status">
                  {list.isFetchingNextPage ? t('loadingMore') : t(list.hasNextPage ? 'loaded' : 'loadedAll', { count: rows.length })}
                </Text>
                {heldBack > 0 ? (
                  <Button
                    size="compact-sm"
                    variant="light"
                    leftSection={<Icon name="refresh" size={14} />}
                    onClick={() => {
                      showNew();
                      handle.current?.toTop();
                    }}
                  >
                    {t('showNew', { count: heldBack })}
                  </Button>
                ) : (
                  <Text size="xs" c="dimmed" visibleFrom="sm">
                    {t('keys')}
                  </Text>
                )}
              </Group>
            </Stack>
          )}
        </div>
      </Stack>
    </Page>
  );
}

function useColumns({ selection, all, onTag, mayAct }: { selection: Selection; all: () => readonly string[]; onTag: (tag: string) => void; mayAct: boolean }): readonly Column<Job>[] {
  const t = useText(words);
  const c = useText(common);
  return useMemo(() => {
    const columns: Column<Job>[] = [
      { key: 'name', header: t('job'), width: 'minmax(8rem, 2fr)', cell: (job) => <Name job={job} onTag={onTag} /> },
      { key: 'state', header: t('stateAndWhy'), width: 'minmax(8rem, 2.2fr)', cell: (job) => <StateAndWhy job={job} /> },
      { key: 'place', header: t('place'), width: 'minmax(7.2rem, 1fr)', isMinor: true, choice: 'shown', cell: (job) => <Where job={job} /> },
      { key: 'user', header: c('user'), width: 'minmax(4rem, 0.7fr)', isMinor: true, choice: 'shown', cell: (job) => <span className={classes.small}>{job.user.name}</span> },
      { key: 'gpus', header: t('gpus'), width: '7rem', isMinor: true, choice: 'shown', cell: (job) => <Gpus job={job} /> },
      { key: 'time', header: t('time'), width: '9rem', isMinor: true, choice: 'shown', cell: (job) => <Lengths job={job} /> },
      { key: 'submitted', header: t('submitted'), width: '8.5rem', isMinor: true, choice: 'shown', cell: (job) => <Moment at={job.submitted_at} /> },
      { key: 'started', header: t('started'), width: '8.5rem', isMinor: true, choice: 'hidden', cell: (job) => <Moment at={job.started_at} /> },
      { key: 'ended', header: t('ended'), width: '8.5rem', isMinor: true, choice: 'hidden', cell: (job) => <Moment at={job.ended_at} /> },
      { key: 'pool', header: t('clusterAndPool'), width: 'minmax(7rem, 1fr)', isMinor: true, choice: 'hidden', cell: (job) => <WhereItRuns job={job} /> },
      { key: 'priority', header: t('setPriority'), width: '5.5rem', isMinor: true, choice: 'hidden', cell: (job) => <span className={classes.small}>{job.priority}</span> },
      { key: 'attempts', header: t('attempts'), width: '6rem', isMinor: true, choice: 'hidden', cell: (job) => <span className={classes.small}>{job.attempt}</span> },
      { key: 'id', header: t('id'), width: '19rem', isMinor: true, choice: 'hidden', cell: (job) => <code className={classes.small}>{job.id}</code> },
    ];
    if (mayAct) columns.unshift({ key: 'tick', header: <TickAll selection={selection} all={all} />, width: '1.5rem', cell: (job) => <Tick job={job} selection={selection} all={all} /> });
    return columns;
  }, [t, c, selection, all, onTag, mayAct]);
}

function Moment({ at }: { at: string | null }) {
  return (
    <span className={classes.small}>
      <When at={at} />
    </span>
  );
}

function Nothing({ isFiltered: isNarrow, mayAct, clear }: { isFiltered: boolean; mayAct: boolean; clear: () => void }) {
  const t = useText(words);
  if (isNarrow) {
    return (
      <Empty icon="filter" title={t('noMatchTitle')} action={<Button variant="default" onClick={clear}>{t('clearFilters')}</Button>}>
        {t('noMatchHint')}
      </Empty>
    );
  }
  if (!mayAct) return <Empty icon="jobs" title={t('emptyTitle')}>{t('emptyViewer')}</Empty>;
  return (
    <Empty icon="jobs" title={t('emptyTitle')} command="berth submit --gpu 1 python train.py" action={<Button component={Link} to="/submit">{t('submit')}</Button>}>
      {t('emptyHint')}
    </Empty>
  );
}

function ExportButton({ query }: { query: JobQuery }) {
  const t = useText(words);
  const [count, setCount] = useState<number | null>(null);
  const run = async () => {
    setCount(0);
    try {
      const { count: read, isCut } = await exportJobs(query, setCount);
      notify(t(isCut ? 'exportCut' : 'exported', { count: read }));
    } catch (error) {
      notifyProblem(error);
    } finally {
      setCount(null);
    }
  };
  return (
    <Button variant="default" leftSection={<Icon name="download" size={16} />} onClick={() => void run()} disabled={count !== null}>
      {count === null ? t('exportCsv') : t('exporting', { count })}
    </Button>
  );
}

const FLAGS: Partial<Record<keyof JobQuery, string>> = { state: '--state', tenant: '--tenant', queue: '--queue', user: '--user', tag: '--tag', label: '--label', q: '--search', since: '--since', until: '--until', parent: '--parent', sort: '--sort' };

function waysOf(query: JobQuery): Ways {
  const pairs = toPairs(query);
  const flags = pairs.flatMap(([name, value]) => (name === 'mine' ? ['--user me'] : FLAGS[name as keyof JobQuery] ? [`${FLAGS[name as keyof JobQuery]} ${quote(value)}`] : []));
  const python = Object.entries(query)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `, ${name}=${value === true ? 'True' : JSON.stringify(value)}`)
    .join('');
  return {
    cli: ['berth ps --all', ...flags].join(' '),
    curl: curl('GET', `/jobs?${new URLSearchParams([...pairs, ['limit', '100']]).toString()}`),
    python: `import berth\n\nwith berth.Client() as client:\n    for job in client.jobs.list(limit=100${python}):\n        print(job.id, job.name, job.state)`,
  };
}
