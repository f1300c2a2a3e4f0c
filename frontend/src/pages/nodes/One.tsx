/** One node: its condition, what runs on it, what was measured, and how to take it out of service. */

import { Alert, Anchor, Badge, Code, Group, Progress, SegmentedControl, SimpleGrid, Stack, Table, Text, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useEffect, useState } from 'react';
import { Link, useParams, useSearchParams } from 'react-router';

import { api, take } from '@/api/client';
import type { FleetNode } from '@/api/fleet';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Answer, Loading } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { Affected } from './Affected';
import { Drain } from './Drain';
import { NodeState } from './State';
import { words } from './text';

const Charts = lazy(() => import('./Charts'));
const HOUR_MS = 3_600_000;
const RANGES = { hour: HOUR_MS, day: 24 * HOUR_MS, week: 168 * HOUR_MS } as const;

export default function One() {
  const t = useText(words);
  const { id = '' } = useParams();
  const node = useQuery({ queryKey: ['node', id], refetchInterval: 15_000, queryFn: ({ signal }) => take(api.GET('/api/v1/nodes/{node_id}', { params: { path: { node_id: id } }, signal })) });
  const affected = useQuery({ queryKey: ['node', id, 'affected'], refetchInterval: 10_000, queryFn: ({ signal }) => take(api.GET('/api/v1/nodes/{node_id}/affected', { params: { path: { node_id: id } }, signal })) });
  const { isOperator } = useSession();
  const back = (
    <Anchor component={Link} to="/nodes" size="sm">
      ‹ {t('allNodes')}
    </Anchor>
  );
  const found = node.data;
  if (!found) {
    return (
      <Page title={t('title')} subtitle={back}>
        <Answer query={node}>{() => null}</Answer>
      </Page>
    );
  }
  const jobs = affected.data?.jobs ?? [];
  const isDraining = found.cordoned && jobs.some((job) => job.is_leaving);
  return (
    <Page
      title={found.name}
      subtitle={
        <Group gap="sm">
          {back}
          <NodeState node={found} isDraining={isDraining} size="md" />
          <span>
            {found.cluster.name}/{found.pool.name}
          </span>
        </Group>
      }
      actions={
        <>
          <CopyAs
            ways={() => ({
              cli: `berth nodes show ${quote(found.name)}\nberth nodes ${found.cordoned ? 'uncordon' : 'cordon'} ${quote(found.name)}\nberth nodes drain ${quote(found.name)}`,
              curl: `${curl('GET', `/nodes/${id}`)}\n\n${curl('POST', `/nodes/${id}/drain?dry_run=true`, {})}`,
              python: `import berth\n\nclient = berth.Client()\nnode = client.request("GET", "/nodes/${id}")\nplan = client.request("POST", "/nodes/${id}/drain", params={"dry_run": True}, json={})\nprint(node["ready"], plan["jobs"])`,
            })}
          />
          {isOperator && <Cordon node={found} />}
          {isOperator && (!found.cordoned || jobs.length > 0) && <Drain node={found} />}
        </>
      }
    >
      {found.cordoned && (
        <Alert color="orange" icon={<Icon name="pause" />} title={found.cordoned_by ? t('cordonedBy', { user: found.cordoned_by }) : t('cordoned')}>
          {found.cordon_reason} <When at={found.cordoned_at} size="sm" />
          {found.ready && found.reason && <Text size="sm">{found.reason}</Text>}
        </Alert>
      )}
      {!found.ready && (
        <Alert color="red" icon={<Icon name="alert" />} title={t('notReady')}>
          {found.reason}
        </Alert>
      )}
      <section aria-labelledby="runs-here">
        <Title order={2} size="h4" id="runs-here" mb="xs">
          {t('runsHere')}
        </Title>
        {found.cordoned && affected.data && <Progressing left={jobs.filter((job) => job.is_leaving).length} jobs={jobs.length} />}
        <Answer query={affected} lines={3}>
          {(answer) => (answer.jobs.length === 0 && answer.others === 0 ? <Text size="sm" c="dimmed">{t('nothingRuns')}</Text> : <Affected jobs={answer.jobs} others={answer.others} />)}
        </Answer>
      </section>
      <Measured id={id} />
      <Facts node={found} />
    </Page>
  );
}

/** How far a drain has come: against the most that were here since the page was opened. */
function Progressing({ left, jobs }: { left: number; jobs: number }) {
  const t = useText(words);
  const [most, setMost] = useState(jobs);
  useEffect(() => setMost((before) => Math.max(before, jobs)), [jobs]);
  const isOver = jobs === 0;
  if (left === 0 && !isOver) return null;
  const label = isOver ? t('drainDone') : t('drainProgress', { left: jobs, all: most });
  return (
    <Stack gap={4} mb="sm" role="status">
      <Text size="sm">{label}</Text>
      <Progress value={most === 0 ? 100 : ((most - jobs) / most) * 100} animated={!isOver} aria-label={label} />
    </Stack>
  );
}

function Cordon({ node }: { node: FleetNode }) {
  const t = useText(words);
  const w = useText(common);
  const [reason, setReason] = useState('');
  const act = async () => {
    await take(
      api.PATCH('/api/v1/nodes/{node_id}', {
        params: { path: { node_id: node.id } },
        headers: { 'If-Match': `"${node.version}"` },
        body: { cordoned: !node.cordoned, cordon_reason: node.cordoned ? '' : reason },
      }),
    );
    await Promise.all([queries.invalidateQueries({ queryKey: ['node', node.id] }), queries.invalidateQueries({ queryKey: ['nodes'] })]);
  };
  if (node.cordoned) return <Confirm variant="default" label={t('uncordon')} title={t('uncordonTitle', { name: node.name })} act={act} />;
  return (
    <Confirm variant="default" label={t('cordon')} title={t('cordonTitle', { name: node.name })} act={act}>
      <Stack gap="sm">
        <Text size="sm">{t('cordonHint')}</Text>
        <TextInput label={w('reason')} description={t('reasonHint')} value={reason} onChange={(event) => setReason(event.currentTarget.value)} maxLength={200} />
      </Stack>
    </Confirm>
  );
}

function Measured({ id }: { id: string }) {
  const t = useText(words);
  const [search, setSearch] = useSearchParams();
  const asked = search.get('range');
  const range: keyof typeof RANGES = asked === 'day' || asked === 'week' ? asked : 'hour';
  const metrics = useQuery({
    queryKey: ['node', id, 'metrics', range],
    refetchInterval: 30_000,
    staleTime: 15_000,
    queryFn: ({ signal }) => take(api.GET('/api/v1/nodes/{node_id}/metrics', { params: { path: { node_id: id }, query: { since: new Date(Date.now() - RANGES[range]).toISOString(), points: 240 } }, signal })),
  });
  return (
    <Stack component="section" aria-labelledby="measured">
      <Group justify="space-between">
        <Title order={2} size="h4" id="measured">
          {t('telemetry')}
        </Title>
        <SegmentedControl aria-label={t('range')} value={range} onChange={(value) => setSearch(value === 'hour' ? {} : { range: value }, { replace: true })} data={(['hour', 'day', 'week'] as const).map((name) => ({ value: name, label: t(name) }))} />
      </Group>
      <Answer query={metrics} lines={6}>
        {(answer) => (
          <Suspense fallback={<Loading lines={6} />}>
            <Charts series={answer.items} />
          </Suspense>
        )}
      </Answer>
    </Stack>
  );
}

function Facts({ node }: { node: FleetNode }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const taints = Object.entries(node.taints);
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <section aria-labelledby="facts">
        <Title order={2} size="h4" id="facts" mb="xs">
          {t('facts')}
        </Title>
        <Table variant="vertical">
          <Table.Tbody>
            {[
              [w('cores'), `${format.milli(node.allocated.cpu_millis)} / ${format.milli(node.capacity.cpu_millis)}`],
              [w('memory'), `${format.bytes(node.allocated.memory_bytes)} / ${format.bytes(node.capacity.memory_bytes)}`],
              [w('gpus'), `${format.milli(node.allocated.gpu_millis)} / ${format.milli(node.capacity.gpu_millis)} ${node.gpu_model ?? ''}`],
            ].map(([label, value]) => (
              <Table.Tr key={label}>
                <Table.Th w={160}>{label}</Table.Th>
                <Table.Td>{value}</Table.Td>
              </Table.Tr>
            ))}
            <Table.Tr>
              <Table.Th>{t('lastSeen')}</Table.Th>
              <Table.Td>
                <When at={node.last_seen_at} size="sm" />
              </Table.Td>
            </Table.Tr>
            <Table.Tr>
              <Table.Th>{t('taints')}</Table.Th>
              <Table.Td>{taints.length === 0 ? t('noTaints') : taints.map(([name, effect]) => <Badge key={name} variant="default" tt="none" mr={4}>{`${name}=${effect}`}</Badge>)}</Table.Td>
            </Table.Tr>
            <Table.Tr>
              <Table.Th>{t('labels')}</Table.Th>
              <Table.Td>
                <Group gap={4}>
                  {Object.entries(node.labels).map(([name, value]) => (
                    <Code key={name} style={{ overflowWrap: 'anywhere' }}>{`${name}=${value}`}</Code>
                  ))}
                </Group>
              </Table.Td>
            </Table.Tr>
          </Table.Tbody>
        </Table>
      </section>
      {node.gpus.length > 0 && (
        <section aria-labelledby="gpus">
          <Title order={2} size="h4" id="gpus" mb="xs">
            {t('gpus')}
          </Title>
          <Table>
            <Table.Tbody>
              {node.gpus.map((gpu, index) => (
                <Table.Tr key={gpu.identifier}>
                  <Table.Td>{index}</Table.Td>
                  <Table.Td>
                    {gpu.model} {format.bytes(gpu.memory_bytes)}
                    <Text size="xs" c="dimmed">
                      {gpu.identifier}
                    </Text>
                  </Table.Td>
                  <Table.Td>
                    <Group gap={4}>
                      <Mark icon={gpu.healthy ? 'check' : 'alert'} color={gpu.healthy ? 'teal' : 'red'} label={t(gpu.healthy ? 'gpuHealthy' : 'gpuUnhealthy')} size="sm" />
                      {gpu.simulated && <Mark icon="info" color="grape" label={w('simulated')} size="sm" />}
                    </Group>
                    {gpu.faults.map((fault) => (
                      <Text key={`${fault.kind} ${fault.number}`} size="xs">
                        <Said text={fault.text} /> <When at={fault.since_at} size="xs" />
                      </Text>
                    ))}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </section>
      )}
    </SimpleGrid>
  );
}
