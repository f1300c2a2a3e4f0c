/** All queues that one sees, pool by pool: what each is promised, uses, borrows and leaves to others. */

import { Anchor, Button, Card, Group, SegmentedControl, Stack, Text, Title } from '@mantine/core';
import { Link } from 'react-router';

import { RESOURCES, usePools, useQueues, type Pool, type Queue, type Resource } from '@/api/fleet';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Answer, Empty, ProblemView } from '@/ui/Feedback';
import { Page } from '@/ui/Page';
import { Mark } from '@/ui/Status';

import { amount, Bar } from './Bar';
import { lenders, limitsIn, standing, tree } from './lending';
import { Legend } from './Legend';
import { held, useCounts, type QueueCounts } from './reads';
import { words } from './text';

export default function Overview() {
  const t = useText(words);
  const queues = useQueues();
  const pools = usePools();
  const counts = useCounts(queues.data);
  const [search, put] = useAddress();
  const asked = search.get('resource');
  const resource: Resource = RESOURCES.find((name) => name === asked) ?? 'gpu_millis';
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <>
          <SegmentedControl
            aria-label={t('resource')}
            value={resource}
            onChange={(value) => put({ resource: value === 'gpu_millis' ? null : value })}
            data={RESOURCES.map((name) => ({ value: name, label: t(name) }))}
          />
          <CopyAs ways={{ cli: 'berth queues list -o wide', curl: curl('GET', '/queues?limit=500'), python: 'import berth\n\nclient = berth.Client()\nfor queue in client.request("GET", "/queues")["items"]:\n    print(queue["path"], queue["pools"])' }} />
        </>
      }
    >
      <Answer query={queues} lines={8}>
        {(all) =>
          all.length === 0 ? (
            <Empty icon="queues" title={t('empty')} command="berth tenants list">
              {t('emptyHint')}
            </Empty>
          ) : (
            <>
              {counts.states && (
                <Group gap="xs">
                  <Mark icon="play" color="blue" label={t('runningCount', { count: held(counts.states) })} size="lg" />
                  <Mark icon="hourglass" color="yellow" label={t('waitingCount', { count: counts.states.queued ?? 0 })} size="lg" />
                </Group>
              )}
              {pools.error ? (
                <ProblemView error={pools.error} retry={() => void pools.refetch()} />
              ) : pools.data?.length === 0 ? (
                <Text c="dimmed">{t('noPool')}</Text>
              ) : (
                pools.data?.map((pool) => <PoolBoard key={pool.id} pool={pool} queues={all} resource={resource} counts={counts.byQueue} />)
              )}
              <Legend />
            </>
          )
        }
      </Answer>
    </Page>
  );
}

type Counts = ReadonlyMap<string, QueueCounts>;

function PoolBoard({ pool, queues, resource, counts }: { pool: Pool; queues: readonly Queue[]; resource: Resource; counts: Counts }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const { isOperator } = useSession();
  const capacity = pool.capacity[resource];
  const used = pool.allocated[resource];
  const rows = tree(queues).filter(({ queue }) => limitsIn(queue, pool.id));
  if (resource === 'gpu_millis' && capacity === 0 && rows.every(({ queue }) => limitsIn(queue, pool.id)?.used.gpu_millis === 0)) return null;
  return (
    <Card withBorder component="section" aria-label={`${w('pool')} ${pool.cluster.name}/${pool.name}`}>
      <Group justify="space-between" mb="sm">
        <Group gap="xs">
          <Title order={2} size="h4">
            {pool.name}
          </Title>
          <Text c="dimmed" size="sm">
            {[pool.cluster.name, pool.gpu_model].filter(Boolean).join(' · ')}
          </Text>
          {pool.gpus_simulated && <Mark icon="info" color="grape" label={w('simulated')} size="sm" />}
        </Group>
        <Text size="sm">{t('poolWords', { used: amount(format, resource, used), all: amount(format, resource, capacity), free: amount(format, resource, Math.max(0, capacity - used)) })}</Text>
      </Group>
      <Stack gap="md">
        {rows.map(({ queue, depth }) => (
          <QueueRow key={queue.id} queue={queue} depth={depth} pool={pool} queues={queues} resource={resource} knowsAll={isOperator} count={counts.get(queue.id)} />
        ))}
      </Stack>
    </Card>
  );
}

function QueueRow({ queue, depth, pool, queues, resource, knowsAll, count }: { queue: Queue; depth: number; pool: Pool; queues: readonly Queue[]; resource: Resource; knowsAll: boolean; count: QueueCounts | undefined }) {
  const t = useText(words);
  const lentBy = useLentBy(queue, queues, pool.id, resource, knowsAll);
  const limits = limitsIn(queue, pool.id);
  if (!limits) return null;
  return (
    <Group align="flex-start" gap="sm" wrap="wrap" pl={{ base: 0, sm: depth * 20 }}>
      <Stack gap={0} w={{ base: '100%', sm: 180 }}>
        <Anchor component={Link} to={`/queues/${queue.id}`} fw={600} style={{ overflowWrap: 'anywhere' }}>
          {queue.name}
        </Anchor>
        {queue.tenant && queue.tenant.name !== queue.name && (
          <Text size="xs" c="dimmed">
            {queue.tenant.name}
          </Text>
        )}
        {count && (
          <Text size="xs" c="dimmed">
            {[t('runningCount', { count: count.running }), t('waitingCount', { count: count.waiting })].join(' · ')}
          </Text>
        )}
      </Stack>
      <div style={{ flex: '1 1 16rem', minWidth: 0 }}>
        <Bar name={queue.path} standing={standing(limits, resource, queue.tenant === null)} capacity={pool.capacity[resource]} resource={resource} lentBy={queue.tenant ? lentBy : undefined} />
      </div>
    </Group>
  );
}

/** In words: who may have lent what a queue borrows. Whoever sees only some tenants is told of the others without a name. */
export function useLentBy(queue: Queue, queues: readonly Queue[], poolId: string, resource: Resource, knowsAll: boolean): string {
  const t = useText(words);
  const format = useFormat();
  const found = lenders(queues, queue, poolId, resource).slice(0, 5);
  return [...found.map((lender) => t('lender', { name: lender.queue.name, n: amount(format, resource, lender.lends) })), knowsAll ? t('nobodyPromised') : t('otherTenants')].join(', ');
}

export function SubmitHere({ queue }: { queue: Queue }) {
  const t = useText(words);
  const session = useSession();
  if (!queue.tenant || !session.may('member', queue.tenant.slug)) return null;
  return (
    <Button component={Link} to={`/submit?tenant=${queue.tenant.slug}&queue=${encodeURIComponent(queue.name)}`}>
      {t('submitHere')}
    </Button>
  );
}
