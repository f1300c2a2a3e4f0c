/** All nodes with their condition, and what is in quarantine. */

import { Anchor, Group, SegmentedControl, Stack, Text, TextInput } from '@mantine/core';
import { useMemo } from 'react';
import { Link } from 'react-router';

import { useNodes, type FleetNode } from '@/api/fleet';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Rows, type Column } from '@/ui/Rows';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { Quarantine } from './Quarantine';
import { NodeState } from './State';
import { words } from './text';

const SHOWS = ['all', 'inService', 'outOfService', 'broken'] as const;

export default function List() {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const nodes = useNodes();
  const { isOperator } = useSession();
  const [search, put] = useAddress();
  const shows = SHOWS.find((name) => name === search.get('show')) ?? 'all';
  const needle = search.get('q') ?? '';
  const found = useMemo(
    () =>
      (nodes.data ?? []).filter(
        (node) =>
          (shows === 'all' || (shows === 'inService' ? node.ready && !node.cordoned : shows === 'outOfService' ? node.cordoned : !node.ready)) &&
          `${node.name} ${node.pool.name} ${node.cluster.name} ${node.gpu_model ?? ''} ${node.cordon_reason ?? ''}`.toLowerCase().includes(needle.toLowerCase()),
      ),
    [nodes.data, shows, needle],
  );
  const columns = useMemo<Column<FleetNode>[]>(
    () => [
      {
        key: 'name',
        header: w('node'),
        width: 'minmax(7rem, 1.4fr)',
        cell: (node) => (
          <Anchor component={Link} to={`/nodes/${node.id}`} size="sm" fw={600}>
            {node.name}
          </Anchor>
        ),
      },
      { key: 'pool', header: w('pool'), width: 'minmax(6rem, 1fr)', isMinor: true, cell: (node) => <Text size="sm" truncate>{`${node.cluster.name}/${node.pool.name}`}</Text> },
      { key: 'state', header: w('state'), width: '8rem', cell: (node) => <NodeState node={node} /> },
      { key: 'gpus', header: w('gpus'), width: '5.5rem', cell: (node) => <Text size="sm">{node.gpus.length === 0 ? '–' : `${format.milli(node.allocated.gpu_millis)} / ${format.milli(node.capacity.gpu_millis)}`}</Text> },
      { key: 'cores', header: w('cores'), width: '6rem', isMinor: true, cell: (node) => <Text size="sm">{`${format.milli(node.allocated.cpu_millis)} / ${format.milli(node.capacity.cpu_millis)}`}</Text> },
      { key: 'memory', header: w('memory'), width: '10rem', isMinor: true, cell: (node) => <Text size="sm">{`${format.bytes(node.allocated.memory_bytes)} / ${format.bytes(node.capacity.memory_bytes)}`}</Text> },
      {
        key: 'health',
        header: t('health'),
        width: '8.5rem',
        isMinor: true,
        cell: (node) => {
          const bad = node.gpus.filter((gpu) => !gpu.healthy).length;
          if (node.gpus.length === 0) return <Text size="sm" c="dimmed">{t('noGpus')}</Text>;
          return bad > 0 ? <Mark icon="alert" color="red" label={t('unhealthy', { count: bad })} size="sm" /> : <Mark icon="check" color="teal" label={t('healthy')} size="sm" />;
        },
      },
      { key: 'seen', header: t('lastSeen'), width: '8rem', isMinor: true, cell: (node) => <When at={node.last_seen_at} size="sm" /> },
    ],
    [t, w, format],
  );
  return (
    <Page title={t('title')} subtitle={t('subtitle')} actions={<CopyAs ways={{ cli: 'berth nodes list -o wide', curl: curl('GET', '/nodes?limit=500'), python: 'import berth\n\nclient = berth.Client()\nfor node in client.request("GET", "/nodes")["items"]:\n    print(node["name"], node["ready"], node["cordoned"])' }} />}>
      <Answer query={nodes} lines={8}>
        {(all) =>
          all.length === 0 ? (
            <Empty icon="cluster" title={t('empty')} command="berth clusters">
              {t('emptyHint')}
            </Empty>
          ) : (
            <Stack gap="sm">
              <Group>
                <SegmentedControl aria-label={t('shows')} value={shows} onChange={(value) => put({ show: value === 'all' ? '' : value })} data={SHOWS.map((name) => ({ value: name, label: name === 'all' ? `${w('all')} (${format.number(all.length)})` : t(name) }))} />
                <TextInput type="search" aria-label={t('search')} placeholder={t('search')} leftSection={<Icon name="search" size={16} />} value={needle} onChange={(event) => put({ q: event.currentTarget.value })} style={{ flex: '1 1 12rem' }} maw={420} />
              </Group>
              {found.length === 0 ? <Empty icon="filter" title={t('noneFits')} /> : <Rows label={t('title')} rows={found} columns={columns} rowKey={(node) => node.id} height={`min(calc(100vh - 26rem), max(12rem, ${found.length * 44 + 50}px))`} total={found.length} />}
            </Stack>
          )
        }
      </Answer>
      {isOperator && <Quarantine />}
    </Page>
  );
}
