/** Each pool now, and one of them over time: how much is used, how much of the rest is in pieces, what could still start. */

import { Card, Group, SegmentedControl, Select, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';

import { api, take } from '@/api/client';
import { chartTimes, type Pool } from '@/api/fleet';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Answer, Loading } from '@/ui/Feedback';
import { Meter } from '@/ui/Meter';
import { Mark } from '@/ui/Status';

import { words } from './text';

const Chart = lazy(() => import('@/ui/Chart').then((module) => ({ default: module.Chart })));
const HOUR_MS = 3_600_000;
const POINTS = 300;
export const RANGES = { hour: HOUR_MS, day: 24 * HOUR_MS, week: 7 * 24 * HOUR_MS } as const;
export type Range = keyof typeof RANGES;

export function PoolCards({ pools }: { pools: readonly Pool[] }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, xl: 3 }}>
      {pools.map((pool) => {
        const hasGpus = pool.capacity.gpu_millis > 0;
        const used = hasGpus ? pool.allocated.gpu_millis : pool.allocated.cpu_millis;
        const all = hasGpus ? pool.capacity.gpu_millis : pool.capacity.cpu_millis;
        const models = Object.values(pool.use.idle?.models ?? {});
        const largestJob = Math.max(0, ...models.map((model) => model.largest_job));
        return (
          <Card withBorder key={pool.id} component="section" aria-label={`${w('pool')} ${pool.cluster.name}/${pool.name}`}>
            <Group justify="space-between" mb={6}>
              <Title order={2} size="h5">
                {pool.name}{' '}
                <Text span size="sm" c="dimmed">
                  {[pool.cluster.name, pool.gpu_model].filter(Boolean).join(' · ')}
                </Text>
              </Title>
              {pool.gpus_simulated && <Mark icon="info" color="grape" label={w('simulated')} size="sm" />}
            </Group>
            <Meter
              label={t(hasGpus ? 'poolUse' : 'poolCores', { used: format.milli(used), all: format.milli(all) })}
              total={all}
              parts={[{ value: used, label: t(hasGpus ? 'poolUse' : 'poolCores', { used: format.milli(used), all: format.milli(all) }), color: 'blue' }]}
              words={format.percent(all > 0 ? used / all : 0)}
            />
            <Group gap="md" mt={6}>
              <Text size="xs" c={pool.nodes_available < pool.node_count ? 'orange' : 'dimmed'}>
                {t('machines', { ready: pool.nodes_available, all: pool.node_count })}
              </Text>
              {hasGpus && pool.use.idle && (
                <Text size="xs" c="dimmed">
                  {t('largestJob', { n: largestJob })}
                </Text>
              )}
              {pool.use.fragmentation !== null && (
                <Text size="xs" c="dimmed" title={t('fragmentationHint')}>
                  {t('fragmentation', { percent: format.percent(pool.use.fragmentation) })}
                </Text>
              )}
            </Group>
            {Object.keys(pool.uneven).length > 0 && (
              <Text size="xs" c="orange" mt={4}>
                {t('unevenHint', { labels: Object.keys(pool.uneven).join(', ') })}
              </Text>
            )}
          </Card>
        );
      })}
    </SimpleGrid>
  );
}

export function PoolHistory({ pools, poolId, range, choose }: { pools: readonly Pool[]; poolId: string; range: Range; choose: (changes: Record<string, string>) => void }) {
  const t = useText(words);
  const w = useText(common);
  const pool = pools.find((one) => one.id === poolId) ?? pools.find((one) => one.capacity.gpu_millis > 0) ?? pools[0];
  const history = useQuery({
    queryKey: ['pools', pool?.id, 'metrics', range],
    enabled: pool !== undefined,
    refetchInterval: 60_000,
    staleTime: 20_000,
    queryFn: ({ signal }) => take(api.GET('/api/v1/pools/{pool_id}/metrics', { params: { path: { pool_id: pool?.id ?? '' }, query: { since: new Date(Date.now() - RANGES[range]).toISOString(), points: POINTS } }, signal })),
  });
  if (!pool) return null;
  return (
    <Stack component="section" aria-label={t('overTime')}>
      <Group>
        <Select label={w('pool')} size="sm" w={220} allowDeselect={false} value={pool.id} onChange={(value) => choose({ history: value ?? '' })} data={pools.map((one) => ({ value: one.id, label: `${one.cluster.name}/${one.name}` }))} />
        <SegmentedControl aria-label={t('range')} mt="auto" value={range} onChange={(value) => choose({ range: value })} data={(['hour', 'day', 'week'] as const).map((name) => ({ value: name, label: t(name) }))} />
      </Group>
      <Answer query={history} lines={6}>
        {(answer) => <Charts pool={pool} series={answer.items} />}
      </Answer>
    </Stack>
  );
}

function Charts({ pool, series }: { pool: Pool; series: Parameters<typeof chartTimes>[0][] }) {
  const t = useText(words);
  const format = useFormat();
  const named = (metric: string) => series.find((one) => one.metric === metric);
  const idle = named('gpu_idle');
  const pieces = named('gpu_fragmentation_ratio');
  if (!idle) return <Text c="dimmed">{t('noHistory')}</Text>;
  const all = pool.capacity.gpu_millis / 1000;
  const count = (value: number) => format.number(value);
  const times = chartTimes(idle);
  return (
    <Suspense fallback={<Loading lines={6} />}>
      <SimpleGrid cols={{ base: 1, lg: pieces ? 3 : 2 }}>
        <Chart
          title={t('allocation')}
          times={times}
          unit={count}
          maximum={all}
          lines={[
            { label: t('used'), values: idle.values.map((value) => (value === null ? null : Math.max(0, all - value))) },
            { label: t('idle'), values: idle.values },
          ]}
        />
        <Chart
          title={t('largest')}
          times={times}
          unit={count}
          maximum={all}
          lines={[
            { label: t('aJob'), values: named('gpu_largest_job')?.values ?? [] },
            { label: t('aTask'), values: named('gpu_largest_task')?.values ?? [] },
          ]}
        />
        {pieces && <Chart title={t('fragmentationTitle')} times={chartTimes(pieces)} unit={(value) => format.percent(value)} maximum={1} lines={[{ label: t('fragmentationTitle'), values: pieces.values }]} />}
      </SimpleGrid>
    </Suspense>
  );
}
