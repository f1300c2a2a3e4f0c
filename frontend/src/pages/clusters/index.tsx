/** Clusters, the platform's own checks, self-tests, and the rules of pools, for operators. */

import { Group, List, SimpleGrid, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { api, take, type Schemas } from '@/api/client';
import { useClusters, usePools, useReadiness } from '@/api/fleet';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Dialog } from '@/ui/Dialog';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { plain } from '@/ui/plain';
import { Said } from '@/ui/Said';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { ClusterCard } from './ClusterCard';
import { ClusterForm } from './ClusterForm';
import { PoolRules } from './PoolRules';
import { words } from './text';

export default function Clusters() {
  const t = useText(words);
  const clusters = useClusters();
  const { isOperator } = useSession();
  const add = isOperator && (
    <Dialog label={t('add')} title={t('addTitle')} size="lg" leftSection={<Icon name="clusters" size={16} />}>
      {(close) => <ClusterForm close={close} />}
    </Dialog>
  );
  return (
    <Page title={t('title')} subtitle={t('subtitle')} actions={<><CopyAs ways={{ cli: 'berth clusters\nberth pools\nberth clusters add NAME --kubeconfig FILE', curl: `${curl('GET', '/clusters')}\n\n${curl('GET', '/pools')}`, python: 'import berth\n\nclient = berth.Client()\nfor cluster in client.request("GET", "/clusters")["items"]:\n    print(cluster["name"], cluster["condition"]["name"])' }} />{add}</>}>
      <Answer query={clusters}>
        {(all) =>
          all.length === 0 ? (
            <Empty icon="clusters" title={t('empty')} command="berth clusters add NAME --kubeconfig FILE" action={add}>
              {t('emptyHint')}
            </Empty>
          ) : (
            <SimpleGrid cols={{ base: 1, lg: 2 }}>
              {all.map((cluster) => (
                <ClusterCard key={cluster.id} cluster={cluster} />
              ))}
            </SimpleGrid>
          )
        }
      </Answer>
      <Pools />
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Platform />
        {isOperator && <SelfTests />}
      </SimpleGrid>
    </Page>
  );
}

function Pools() {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const pools = usePools();
  const { isOperator } = useSession();
  return (
    <section aria-labelledby="pools">
      <Title order={2} size="h4" id="pools" mb="xs">
        {t('pools')}
      </Title>
      <Answer query={pools} lines={3}>
        {(all) => (
          <Table.ScrollContainer minWidth={760}>
            <Table>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{w('pool')}</Table.Th>
                  <Table.Th>{t('nodes')}</Table.Th>
                  <Table.Th>{t('shape')}</Table.Th>
                  <Table.Th>{t('policy')}</Table.Th>
                  <Table.Th>{t('gpuShares')}</Table.Th>
                  <Table.Th>{t('levels')}</Table.Th>
                  <Table.Th>{t('weights')}</Table.Th>
                  {isOperator && <Table.Th>{w('actions')}</Table.Th>}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {all.map((pool) => (
                  <Table.Tr key={pool.id}>
                    <Table.Td>
                      {pool.cluster.name}/{pool.name}
                    </Table.Td>
                    <Table.Td>
                      {pool.nodes_available} / {pool.node_count}
                    </Table.Td>
                    <Table.Td>
                      {[pool.node_shape.gpu_millis > 0 && `${format.milli(pool.node_shape.gpu_millis)} ${pool.gpu_model ?? 'GPU'}`, `${format.milli(pool.node_shape.cpu_millis)} ${w('cores')}`, format.bytes(pool.node_shape.memory_bytes)].filter(Boolean).join(' · ')}
                    </Table.Td>
                    <Table.Td>{pool.rules.policy ? t(pool.rules.policy) : t('byDefault')}</Table.Td>
                    <Table.Td>{pool.rules.gpu_shares === null || pool.rules.gpu_shares === undefined ? t('byDefault') : pool.rules.gpu_shares ? w('yes') : w('no')}</Table.Td>
                    <Table.Td>{pool.rules.levels?.map((level) => t(level)).join(', ') ?? t('byDefault')}</Table.Td>
                    <Table.Td>
                      {Object.entries(pool.rules.weights ?? {})
                        .map(([term, weight]) => `${term}=${weight}`)
                        .join(', ') || t('byDefault')}
                    </Table.Td>
                    {isOperator && (
                      <Table.Td>
                        <PoolRules pool={pool} />
                      </Table.Td>
                    )}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Answer>
    </section>
  );
}

function Platform() {
  const t = useText(words);
  const ready = useReadiness();
  const info = useQuery({ queryKey: ['info'], staleTime: 60_000, queryFn: () => take(api.GET('/api/v1/info')) });
  return (
    <section aria-labelledby="platform">
      <Group gap="sm" mb="xs">
        <Title order={2} size="h4" id="platform">
          {t('platform')}
        </Title>
        {ready.data && <Mark icon={ready.data.ok ? 'check' : 'alert'} color={ready.data.ok ? 'teal' : 'red'} label={t(ready.data.ok ? 'ok' : 'notOk')} />}
      </Group>
      {info.data && (
        <Text size="sm" c="dimmed" mb="xs">
          {t('version', { version: info.data.version, profile: info.data.profile })}
        </Text>
      )}
      <Answer query={ready} lines={5}>
        {(found) => (
          <SmallTable label={t('platform')} head={[t('check'), t('verdict'), t('detail'), t('took')]} minWidth={360}>
            {Object.entries(found.checks).map(([name, check]) => (
              <Table.Tr key={name}>
                <Table.Td>{name}</Table.Td>
                <Table.Td>
                  <Mark icon={check.ok ? 'check' : 'alert'} color={check.ok ? 'teal' : 'red'} label={t(check.ok ? 'ok' : 'notOk')} size="sm" />
                </Table.Td>
                <Table.Td>
                  <Said text={check.detail} />
                </Table.Td>
                <Table.Td>{check.milliseconds} ms</Table.Td>
              </Table.Tr>
            ))}
          </SmallTable>
        )}
      </Answer>
    </section>
  );
}

function SelfTests() {
  const t = useText(words);
  const format = useFormat();
  const tests = useQuery({ queryKey: ['selftests'], refetchInterval: 60_000, queryFn: ({ signal }) => take(api.GET('/api/v1/selftests', { params: { query: { limit: 10 } }, signal })) });
  const look = { '': { icon: 'hourglass', color: 'blue', word: 'runs' }, passed: { icon: 'check', color: 'teal', word: 'passed' }, failed: { icon: 'alert', color: 'red', word: 'failed' }, broken: { icon: 'cross', color: 'orange', word: 'broken' } } as const;
  return (
    <section aria-labelledby="selftests">
      <Title order={2} size="h4" id="selftests">
        {t('selftests')}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {t('selftestsHint')}
      </Text>
      <Answer query={tests} lines={3}>
        {(page) =>
          page.items.length === 0 ? (
            <Text size="sm">{t('selftestsNone')}</Text>
          ) : (
            <>
            <Table>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t('started')}</Table.Th>
                  <Table.Th>{t('verdict')}</Table.Th>
                  <Table.Th>{t('requests')}</Table.Th>
                  <Table.Th>{t('findings')}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {page.items.map((test) => (
                  <Table.Tr key={test.id}>
                    <Table.Td>
                      <When at={test.started_at} size="sm" />
                    </Table.Td>
                    <Table.Td title={plain(test.detail)}>
                      <Mark icon={look[test.verdict].icon} color={look[test.verdict].color} label={t(look[test.verdict].word)} size="sm" />
                    </Table.Td>
                    <Table.Td>{format.number(test.requests)}</Table.Td>
                    <Table.Td>{test.findings.length === 0 ? '0' : test.findings.slice(0, 5).map((finding) => <Text key={`${finding.by}${finding.operation}`} size="xs">{`${finding.operation}: ${finding.problem}`}</Text>)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
            <Walls walls={page.items.find((test) => test.walls.length > 0)?.walls ?? []} />
            </>
          )
        }
      </Answer>
    </section>
  );
}

function Walls({ walls }: { walls: Schemas['SelfTestOut']['walls'] }) {
  const t = useText(words);
  const look = { closed: { icon: 'check', color: 'teal' }, open: { icon: 'info', color: 'gray' }, hole: { icon: 'alert', color: 'red' }, not_tried: { icon: 'cross', color: 'orange' } } as const;
  if (walls.length === 0) return null;
  return (
    <>
      <Title order={3} size="h5" mt="sm">
        {t('walls')}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {t('wallsHint')}
      </Text>
      <List size="sm" listStyleType="none" aria-label={t('walls')}>
        {walls.map((wall) => (
          <List.Item key={`${wall.cluster}${wall.boundary}`} title={wall.evidence}>
            <Group gap="xs" wrap="nowrap">
              <Mark icon={look[wall.outcome].icon} color={look[wall.outcome].color} label={t(wall.outcome)} size="sm" />
              <span>
                <Said text={wall.text} />
              </span>
            </Group>
          </List.Item>
        ))}
      </List>
    </>
  );
}
