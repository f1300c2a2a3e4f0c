/** What the tasks of an attempt used, over time: each task on its own, or folded together where they are many. */

import { Alert, Group, Paper, SegmentedControl, Select, SimpleGrid, Stack, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';

import { api, take } from '@/api/client';
import { useAddress } from '@/app/address';
import { useFormat, type Format } from '@/text/format';
import { useText } from '@/text/language';
import { Chart } from '@/ui/Chart';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';

import { AttemptChoice, useAttempt } from '../AttemptChoice';
import { hasEnded, tasksQuery, type Job } from '../queries';
import { merged, secondsBelow, sideBySide, type Series } from './fold';
import { words } from './text';

const METRICS = [
  'cpu_millis',
  'memory_bytes',
  'gpu_utilization_ratio',
  'gpu_memory_bytes',
  'gpu_power_watts',
  'gpu_temperature_celsius',
  'disk_read_bytes_per_second',
  'disk_write_bytes_per_second',
  'processes',
] as const;
type MetricName = (typeof METRICS)[number];

const RANGES = { last15m: 900, last1h: 3_600, last6h: 21_600, last24h: 86_400 } as const;
type RangeName = keyof typeof RANGES | 'whole';
const LINES_MAX = 8; // More lines than this cannot be told apart.
const TASKS_AT_ONCE = 16; // Up to here one answer holds all metrics; beyond, one metric of all tasks.
const POINTS = 240;
const POINTS_OF_MANY = 60;
const EVERY_MS = 15_000;
const IDLE_RATIO = 0.05;
const IDLE_SECONDS = 600;

function isMetric(name: string | null): name is MetricName {
  return (METRICS as readonly (string | null)[]).includes(name);
}

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
  const metric: MetricName | null = isMany ? (isMetric(wanted) ? wanted : job.resources.gpu_millis > 0 && !job.gpus_simulated ? 'gpu_utilization_ratio' : 'cpu_millis') : null;
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
  const format = useFormat();
  const groups = useMemo(() => {
    const found = new Map<string, Series[]>();
    for (const one of series) found.set(one.metric, [...(found.get(one.metric) ?? []), one]);
    const names = { lowest: t('lowest'), mean: t('mean'), highest: t('highest') };
    return METRICS.flatMap((metric) => {
      const same = found.get(metric);
      return same ? [{ metric, folded: isMerged ? merged(same, names) : sideBySide(same) }] : [];
    });
  }, [series, isMerged, t]);
  const idleFor = useMemo(() => (hasEnded(job) ? 0 : secondsBelow(series.filter((one) => one.metric === 'gpu_utilization_ratio'), IDLE_RATIO)), [series, job]);
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
        {groups.map(({ metric, folded }) => (
          <Paper key={metric} withBorder p="md">
            <Chart title={t(metric)} times={folded.times} lines={folded.lines} unit={unitOf(metric, format, t)} maximum={metric === 'gpu_utilization_ratio' ? 1 : undefined} />
          </Paper>
        ))}
      </SimpleGrid>
      {job.resources.gpu_millis > 0 && !hasGpuLine && (
        <Text size="sm" c="dimmed">
          {t('noGpu')}
        </Text>
      )}
    </Stack>
  );
}

function unitOf(metric: MetricName, format: Format, t: (key: 'perSecond', values: { size: string }) => string): (value: number) => string {
  switch (metric) {
    case 'cpu_millis':
      return (value) => format.number(value / 1000, value < 10 ? 5 : value < 1000 ? 3 : 2);
    case 'memory_bytes':
    case 'gpu_memory_bytes':
      return format.bytes;
    case 'gpu_utilization_ratio':
      return (value) => format.percent(value);
    case 'gpu_power_watts':
      return (value) => `${format.number(value, 0)} W`;
    case 'gpu_temperature_celsius':
      return (value) => `${format.number(value, 0)} °C`;
    case 'disk_read_bytes_per_second':
    case 'disk_write_bytes_per_second':
      return (value) => t('perSecond', { size: format.bytes(value) });
    case 'processes':
      return (value) => format.number(value, 0);
  }
}
