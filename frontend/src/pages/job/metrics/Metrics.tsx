/** What the tasks of an attempt used, over time: each task on its own, or folded together where they are many. */

import { Alert, Group, Paper, SegmentedControl, Select, SimpleGrid, Stack, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';

import { api, take } from '@/api/client';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Chart, type Line } from '@/ui/Chart';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';

import { AttemptChoice, useAttempt } from '../AttemptChoice';
import { hasEnded, specQuery, tasksQuery, type Job } from '../queries';
import { askedOf, gpusOf } from './asked';
import { merged, secondsBelow, sideBySide, taskOf, type Series } from './fold';
import { words } from './text';
import { isMetric, METRICS, unitOf, type MetricName } from './units';

const RANGES = { last15m: 900, last1h: 3_600, last6h: 21_600, last24h: 86_400 } as const;
type RangeName = keyof typeof RANGES | 'whole';
const LINES_MAX = 8; // More lines than this cannot be told apart.
const TASKS_AT_ONCE = 16; // Up to here one answer holds all metrics; beyond, one metric of all tasks.
const POINTS = 240;
const POINTS_OF_MANY = 60;
const EVERY_MS = 15_000;
const ASKED_COLOR = '#868e96';
const IDLE_RATIO = 0.05;
const IDLE_SECONDS = 600;

export default function Metrics({ job }: { job: Job }) {
  const t = useText(words);
  const [search, put] = useAddress();
  const attempt = useAttempt(job);
  const tasks = useQuery(tasksQuery(job.id, attempt));
  const names = useMemo(() => (tasks.data?.items ?? []).map((task) => `${task.role}-${task.index}`), [tasks.data]);
  const asked = search.get('role') !== null && search.get('index') !== null ? `${search.get('role')}-${search.get('index')}` : null;
  const task = asked !== null && names.includes(asked) ? asked : null;
  const range: RangeName = (search.get('range') ?? '') in RANGES ? (search.get('range') as RangeName) : 'whole';
  const isMany = task === null && names.length > TASKS_AT_ONCE;
  const wanted = search.get('metric');
  const metric: MetricName | null = isMany ? (isMetric(wanted) ? wanted : job.resources.gpu_millis > 0 ? 'gpu_utilization_ratio' : 'cpu_millis') : null;
  const query = useQuery({
    queryKey: ['job', job.id, 'metrics', attempt, task, range, metric],
    enabled: tasks.data !== undefined,
    placeholderData: keepPreviousData,
    refetchInterval: hasEnded(job) ? false : EVERY_MS,
    queryFn: () =>
      take(
        api.GET('/api/v1/jobs/{job}/metrics', {
          params: {
            path: { job: job.id },
            query: {
              points: isMany ? POINTS_OF_MANY : POINTS,
              ...(attempt === null ? {} : { attempt }),
              ...(task === null ? {} : { task }),
              ...(metric === null ? {} : { metric }),
              ...(range === 'whole' ? {} : { since: new Date(Date.now() - RANGES[range] * 1000).toISOString() }),
            },
          },
        }),
      ),
  });
  const error = query.error ?? tasks.error;
  return (
    <Stack>
      <Group gap="sm">
        <AttemptChoice job={job} />
        {names.length > 1 && (
          <Select
            aria-label={t('task')}
            w="12rem"
            searchable
            clearable
            limit={100}
            placeholder={t('allTasks')}
            data={names}
            value={task}
            onChange={(value) => {
              const cut = value?.lastIndexOf('-') ?? -1;
              put(value === null ? { role: null, index: null } : { role: value.slice(0, cut), index: value.slice(cut + 1) });
            }}
          />
        )}
        {isMany && <Select aria-label={t('metric')} w="14rem" allowDeselect={false} data={METRICS.map((name) => ({ value: name, label: t(name) }))} value={metric} onChange={(value) => put({ metric: value })} />}
        <SegmentedControl
          aria-label={t('range')}
          value={range}
          onChange={(value) => put({ range: value === 'whole' ? null : value })}
          data={(['whole', 'last15m', 'last1h', 'last6h', 'last24h'] as const).map((name) => ({ value: name, label: t(name) }))}
        />
      </Group>
      {error && <ProblemView error={error} retry={() => void query.refetch()} />}
      {query.data ? <Charts job={job} series={query.data.items} isMerged={task === null && names.length > LINES_MAX} count={names.length} /> : !error && <Loading lines={8} />}
    </Stack>
  );
}

function Charts({ job, series, isMerged, count }: { job: Job; series: readonly Series[]; isMerged: boolean; count: number }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const spec = useQuery(specQuery(job.id)).data;
  const groups = useMemo(() => {
    const found = new Map<string, Series[]>();
    for (const one of series) found.set(one.metric, [...(found.get(one.metric) ?? []), one]);
    const names = { lowest: t('lowest'), mean: t('mean'), highest: t('highest') };
    return METRICS.flatMap((metric) => {
      const same = found.get(metric);
      return same ? [{ metric, isSimulated: same.some((one) => one.simulated), folded: isMerged ? merged(same, names) : sideBySide(same) }] : [];
    });
  }, [series, isMerged, t]);
  const idleFor = useMemo(() => (hasEnded(job) ? 0 : secondsBelow(series.filter((one) => one.metric === 'gpu_utilization_ratio' && !one.simulated), IDLE_RATIO)), [series, job]);
  const shown = useMemo(() => new Set(series.map((one) => taskOf(one.subject).replace(/-\d+$/, ''))), [series]);
  const asked = (metric: MetricName, times: readonly number[]): Line[] =>
    spec ? askedOf(spec, metric, shown).map(({ role, value }) => ({ label: role === null ? t('asked') : t('askedRole', { role }), values: times.map(() => value), color: ASKED_COLOR, stroke: 'dotted' })) : [];
  const gpus = spec ? gpusOf(spec, shown) : null;
  const hasGpuLine = groups.some((group) => group.metric.startsWith('gpu_'));
  if (!groups.some((group) => group.folded.lines.some((line) => line.values.some((value) => value !== null)))) {
    return (
      <Empty icon="usage" title={t('none')} command={`berth metrics ${job.id} --watch`}>
        {t('noneHint')}
      </Empty>
    );
  }
  return (
    <Stack>
      {idleFor >= IDLE_SECONDS && (
        <Alert color="orange" icon={<Icon name="alert" />} title={t('idle')}>
          {t('idleHint', { share: format.percent(IDLE_RATIO), duration: format.duration(idleFor) })}
        </Alert>
      )}
      {isMerged && (
        <Text size="sm" c="dimmed">
          {t('merged', { count })}
        </Text>
      )}
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        {groups.map(({ metric, isSimulated, folded }) => (
          <Paper key={metric} withBorder p="md">
            <Chart title={`${metric === 'gpu_utilization_ratio' && gpus !== null ? t('gpusAsked', { count: gpus }) : t(metric)}${isSimulated ? ` · ${c('simulated')}` : ''}`} times={folded.times} lines={[...folded.lines, ...asked(metric, folded.times)]} unit={unitOf(metric, format, t)} maximum={metric === 'gpu_utilization_ratio' ? 1 : undefined} />
          </Paper>
        ))}
      </SimpleGrid>
      {groups.some((group) => group.isSimulated) && (
        <Text size="sm" c="dimmed">
          {t('drawn')}
        </Text>
      )}
      {job.resources.gpu_millis > 0 && !hasGpuLine && (
        <Text size="sm" c="dimmed">
          {t('noGpu')}
        </Text>
      )}
    </Stack>
  );
}
