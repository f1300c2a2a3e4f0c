/** The cluster at a glance: pools now and over time, and every GPU as a cell. */

import { Button, Group, SegmentedControl, Select, Text, TextInput, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useCallback, useMemo, useState } from 'react';

import { useNodes, usePools, type FleetNode } from '@/api/fleet';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';

import { fits, SHOWS, type Filter, type Occupancy, type Shows } from './cells';
import { Legend } from './Legend';
import { NodeDetails } from './NodeDetails';
import { NodeList } from './NodeList';
import { NodeMap } from './NodeMap';
import { PoolCards, PoolHistory, RANGES, type Range } from './Pools';
import { useOccupancy } from './reads';
import { words } from './text';

export default function Cluster() {
  const t = useText(words);
  const pools = usePools();
  const nodes = useNodes();
  const occupancy = useOccupancy();
  const [search, choose] = useAddress();
  const range = search.get('range') ?? '';
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      wide
      actions={<CopyAs ways={{ cli: 'berth gpus\nberth pools\nberth nodes', curl: `${curl('GET', '/nodes?limit=500')}\n\n${curl('GET', '/pools')}`, python: 'import berth\n\nclient = berth.Client()\nfor node in client.request("GET", "/nodes")["items"]:\n    print(node["name"], node["allocated"]["gpu_millis"] / 1000)' }} />}
    >
      <Answer query={pools}>
        {(all) =>
          all.length === 0 ? (
            <Empty icon="cluster" title={t('empty')} command="berth clusters">
              {t('emptyHint')}
            </Empty>
          ) : (
            <>
              <PoolCards pools={all} />
              <PoolHistory pools={all} poolId={search.get('history') ?? ''} range={range in RANGES ? (range as Range) : 'hour'} choose={choose} />
            </>
          )
        }
      </Answer>
      <Answer query={nodes} lines={8}>
        {(all) => (all.length === 0 ? null : <Machines nodes={all} occupancy={occupancy.data ?? null} search={search} choose={choose} />)}
      </Answer>
    </Page>
  );
}

function Machines({ nodes, occupancy, search, choose }: { nodes: readonly FleetNode[]; occupancy: Occupancy | null; search: URLSearchParams; choose: (changes: Record<string, string>) => void }) {
  const t = useText(words);
  const w = useText(common);
  const asked = search.get('show');
  const [text, setText] = useState(search.get('q') ?? '');
  const [sought] = useDebouncedValue(text, 150);
  const filter: Filter = useMemo(() => ({ shows: SHOWS.find((name) => name === asked) ?? 'all', pool: search.get('pool') ?? '', model: search.get('model') ?? '', text: sought }), [asked, search, sought]);
  const found = useMemo(() => nodes.filter((node) => fits(node, occupancy?.get(node.id), filter)), [nodes, occupancy, filter]);
  const poolChoices = useMemo(() => [...new Map(nodes.map((node) => [node.pool.id, { value: node.pool.id, label: `${node.cluster.name}/${node.pool.name}` }])).values()], [nodes]);
  const models = useMemo(() => [...new Set(nodes.flatMap((node) => (node.gpu_model ? [node.gpu_model] : [])))].sort(), [nodes]);
  const tenants = useMemo(() => [...new Set([...(occupancy?.values() ?? [])].flatMap((node) => node.gpus.flatMap((gpu) => (gpu.tenant ? [gpu.tenant] : []))))].sort(), [occupancy]);
  const open = useCallback((node: FleetNode) => choose({ node: node.id }), [choose]);
  const close = useCallback(() => choose({ node: '' }), [choose]);
  const opened = nodes.find((node) => node.id === search.get('node'));
  const isList = search.get('view') === 'list';
  const labels: Record<Shows, string> = { all: w('all'), free: t('free'), busy: t('busy'), unhealthy: t('unhealthy'), drained: t('drained') };
  return (
    <div>
      <Group mb="sm" align="flex-end">
        <SegmentedControl aria-label={t('show')} value={filter.shows} onChange={(value) => choose({ show: value === 'all' ? '' : value })} data={SHOWS.map((name) => ({ value: name, label: labels[name] }))} style={{ overflowX: 'auto', maxWidth: '100%' }} />
        <Select aria-label={w('pool')} placeholder={t('allPools')} clearable w={180} value={filter.pool || null} onChange={(value) => choose({ pool: value ?? '' })} data={poolChoices} />
        {models.length > 1 && <Select aria-label={t('model')} placeholder={t('allModels')} clearable w={160} value={filter.model || null} onChange={(value) => choose({ model: value ?? '' })} data={models} />}
        <TextInput
          type="search"
          aria-label={t('searchNodes')}
          placeholder={t('searchNodes')}
          leftSection={<Icon name="search" size={16} />}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            choose({ q: event.currentTarget.value });
          }}
          style={{ flex: '1 1 14rem' }}
        />
        <SegmentedControl
          aria-label={t('view')}
          value={isList ? 'list' : 'map'}
          onChange={(value) => choose({ view: value === 'map' ? '' : value })}
          data={[
            { value: 'map', label: t('map') },
            { value: 'list', label: t('list') },
          ]}
        />
      </Group>
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5" aria-live="polite">
          {t('nodesShown', { shown: found.length, all: nodes.length })}
        </Title>
        <Legend tenants={tenants} />
      </Group>
      {found.length === 0 ? (
        <Empty icon="filter" title={t('noneFits')} action={<Button variant="default" onClick={() => { setText(''); choose({ show: '', pool: '', model: '', q: '' }); }}>{t('clearFilters')}</Button>} />
      ) : isList ? (
        <NodeList nodes={found} occupancy={occupancy} open={open} />
      ) : (
        <NodeMap nodes={found} occupancy={occupancy} open={open} />
      )}
      {opened && <NodeDetails node={opened} occupied={occupancy?.get(opened.id)} close={close} />}
      <Text size="xs" c="dimmed" mt={4}>
        {nodes.some((node) => node.gpus_simulated) ? `≈ ${w('simulated')}: ${t('simulatedHint')}` : ''}
      </Text>
    </div>
  );
}
