/** One queue's board: who runs, who waits and why, what it is promised, its rules and its budget. */

import { Alert, Anchor, Badge, Button, Card, Group, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo, type ReactNode } from 'react';
import { Link, useParams } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { useBudgetList, usePools, useQueues, type Pool, type Queue, type QueuePool, type Resource } from '@/api/fleet';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { budgetColor, sayBudget } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Answer } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Meter } from '@/ui/Meter';
import { Page } from '@/ui/Page';
import { Mark } from '@/ui/Status';

import { amount, Bar } from './Bar';
import { Legend } from './Legend';
import { standing } from './lending';
import { Running, Waiting } from './Lines';
import { SubmitHere, useLentBy } from './Overview';
import { queueQuery } from './queries';
import { useBoard } from './reads';
import { words } from './text';

export default function One() {
  const t = useText(words);
  const { id = '' } = useParams();
  const session = useSession();
  const queue = useQuery(queueQuery(id));
  if (!queue.data) {
    return (
      <Page title={t('title')} subtitle={<Back />}>
        <Answer query={queue}>{() => null}</Answer>
      </Page>
    );
  }
  const found = queue.data;
  return (
    <Page
      title={found.path}
      subtitle={
        <Group gap="md">
          <Back />
          <span>{found.tenant ? t('ofTenant', { tenant: found.tenant.name }) : t('wholeCluster')}</span>
        </Group>
      }
      actions={
        <>
          <CopyAs
            ways={{
              cli: `berth ps -q ${quote(found.name)} --sort priority\nberth queues list`,
              curl: `${curl('GET', `/queues/${id}`)}\n\n${curl('GET', `/queues/${id}/board`)}`,
              python: `import berth\n\nclient = berth.Client()\nboard = client.request("GET", "/queues/${found.id}/board")\nfor row in board["waiting"]:\n    print(row["position"], row["job"], row["reason"])`,
            }}
          />
          {found.tenant && (session.isOperator || session.may('manager', found.tenant.slug)) && (
            <Button component={Link} to={`/quotas?queue=${id}`} variant="default" leftSection={<Icon name="edit" size={16} />}>
              {t('editLimits')}
            </Button>
          )}
          <SubmitHere queue={found} />
        </>
      }
    >
      <Pools queue={found} />
      <Board queue={found} />
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Rules id={id} />
        <Budget queue={found} />
      </SimpleGrid>
      <Limits queue={found} />
    </Page>
  );
}

function Back() {
  const t = useText(words);
  return (
    <Anchor component={Link} to="/queues" size="sm">
      ‹ {t('allQueues')}
    </Anchor>
  );
}

function Pools({ queue }: { queue: Queue }) {
  const t = useText(words);
  const pools = usePools();
  const queues = useQueues();
  const byId = useMemo(() => new Map(pools.data?.map((pool) => [pool.id, pool])), [pools.data]);
  if (queue.pools.length === 0) return <Alert icon={<Icon name="info" />}>{t('notLimited')}</Alert>;
  return (
    <Stack gap="sm">
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        {queue.pools.map((limits) => (
          <PoolCard key={limits.pool.id} queue={queue} queues={queues.data ?? []} limits={limits} pool={byId.get(limits.pool.id)} />
        ))}
      </SimpleGrid>
      <Legend />
    </Stack>
  );
}

function PoolCard({ queue, queues, limits, pool }: { queue: Queue; queues: readonly Queue[]; limits: QueuePool; pool: Pool | undefined }) {
  const t = useText(words);
  const { isOperator } = useSession();
  const hasGpus = !pool || pool.capacity.gpu_millis > 0;
  const resource: Resource = hasGpus ? 'gpu_millis' : 'cpu_millis';
  const lentBy = useLentBy(queue, queues, limits.pool.id, resource, isOperator);
  return (
    <Card withBorder>
      <Group justify="space-between">
        <Title order={2} size="h5">
          {limits.pool.cluster}/{limits.pool.name}
        </Title>
        <Text size="sm" c="dimmed">
          {t(resource)}
        </Text>
      </Group>
      <Bar name={queue.path} standing={standing(limits, resource, queue.tenant === null)} capacity={pool?.capacity[resource] ?? 0} resource={resource} lentBy={queue.tenant ? lentBy : undefined} />
    </Card>
  );
}

function Board({ queue }: { queue: Queue }) {
  const t = useText(words);
  const { board, waiting, more } = useBoard(queue.id);
  return (
    <Answer query={board} lines={8}>
      {(found) => (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          <div>
            <Heading id="board-running" label={t('running')} count={found.running_count}>
              {found.borrowed_count > 0 && <Mark icon="refresh" color="orange" label={t('borrowedJobs', { count: found.borrowed_count })} />}
            </Heading>
            <Running rows={found.running} total={found.running_count} more={more} />
          </div>
          <div>
            <Heading id="board-waiting" label={t('waiting')} count={found.waiting_count} />
            <Waiting rows={waiting} total={found.waiting_count} more={more} />
          </div>
        </SimpleGrid>
      )}
    </Answer>
  );
}

function Heading({ id, label, count, children }: { id: string; label: string; count: number; children?: ReactNode }) {
  const format = useFormat();
  return (
    <Group gap="xs" mb="xs">
      <Title order={2} size="h4" id={id}>
        {label}
      </Title>
      <Badge variant="default" size="lg">
        {format.number(count)}
      </Badge>
      {children}
    </Group>
  );
}

function Limits({ queue }: { queue: Queue }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  if (queue.pools.length === 0) return null;
  const say = (resource: Resource, value: number | null) => (value === null ? t('noLimit') : amount(format, resource, value));
  const rows = queue.pools.flatMap((limits) => (['gpu_millis', 'cpu_millis', 'memory_bytes'] as const).map((resource) => ({ limits, resource })));
  return (
    <section aria-labelledby="board-limits">
      <Title order={2} size="h4" id="board-limits" mb="xs">
        {t('limits')}
      </Title>
      <Table.ScrollContainer minWidth={640}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{w('pool')}</Table.Th>
              <Table.Th>{t('resourceName')}</Table.Th>
              {(['headUsed', 'headGuarantee', 'headDeserved', 'headCeiling'] as const).map((key) => (
                <Table.Th key={key}>{t(key)}</Table.Th>
              ))}
              <Table.Th title={t('lowest')}>{t('headroom')}</Table.Th>
              <Table.Th>{t('weight')}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map(({ limits, resource }) => (
              <Table.Tr key={`${limits.pool.id}-${resource}`}>
                <Table.Td>{limits.pool.name}</Table.Td>
                <Table.Td>{t(resource)}</Table.Td>
                <Table.Td>{say(resource, limits.used[resource])}</Table.Td>
                <Table.Td>{say(resource, limits.guarantee[resource])}</Table.Td>
                <Table.Td>{limits.deserved[resource] === null ? say(resource, limits.guarantee[resource]) : say(resource, limits.deserved[resource])}</Table.Td>
                <Table.Td title={t('lowest')}>{say(resource, limits.effective_ceiling[resource])}</Table.Td>
                <Table.Td>{say(resource, limits.headroom[resource])}</Table.Td>
                <Table.Td>{format.number(limits.weight[resource])}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </section>
  );
}

function Rules({ id }: { id: string }) {
  const t = useText(words);
  const rules = useQuery({ queryKey: ['queues', id, 'rules'], queryFn: ({ signal }) => take(api.GET('/api/v1/queues/{queue_id}/rules', { params: { path: { queue_id: id } }, signal })) });
  const format = useFormat();
  const count = (value: number | null) => (value === null ? t('noLimit') : format.number(value));
  const time = (value: number | null) => (value === null ? t('noLimit') : format.duration(value));
  return (
    <Card withBorder component="section" aria-label={t('rules')}>
      <Title order={2} size="h5" mb="xs">
        {t('rules')}
      </Title>
      <Answer query={rules} lines={3}>
        {(found: Schemas['RulesOut']) => (
          <Table variant="vertical" layout="fixed">
            <Table.Tbody>
              {[
                [t('maxRuntime'), time(found.max_runtime_seconds)],
                [t('effectiveRuntime'), time(found.effective_max_runtime_seconds)],
                [t('defaultRuntime'), found.effective_default_runtime_seconds === null ? t('defaultRuntimeNone') : format.duration(found.effective_default_runtime_seconds)],
                [t('maxJobs'), count(found.max_jobs)],
                [t('maxContainers'), count(found.max_containers)],
              ].map(([label, value]) => (
                <Table.Tr key={label}>
                  <Table.Th>{label}</Table.Th>
                  <Table.Td>{value}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
      </Answer>
    </Card>
  );
}

function Budget({ queue }: { queue: Queue }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const session = useSession();
  const isOn = session.has('billing');
  const budgets = useBudgetList(isOn);
  if (!isOn) return null;
  return (
    <Card withBorder component="section">
      <Answer query={budgets} lines={3}>
        {(all) => {
          const found = all.find((budget) => budget.queue.id === queue.id);
          if (!found) {
            return (
              <>
                <Title order={2} size="h5" mb="xs">
                  {t('budgetTitle')}
                </Title>
                <Text c="dimmed" size="sm">
                  {t('noBudget')}
                </Text>
              </>
            );
          }
          const say = (value: number) => sayBudget(format, c, found, value);
          return (
            <Stack gap="xs">
              <Meter
                label={t('budget', { month: found.month })}
                total={found.amount}
                parts={[{ value: found.spent, label: say(found.spent), color: budgetColor(found.percent) }]}
                words={t('spent', { spent: say(found.spent), amount: say(found.amount), percent: format.percent(found.percent / 100) })}
              />
              <Text size="sm" c="dimmed">
                {found.stops ? t('budgetStops') : t('budgetWarns')}
              </Text>
            </Stack>
          );
        }}
      </Answer>
    </Card>
  );
}
