/** The map's twin for who reads rather than looks: one node a row, everything in words. */

import { Text, UnstyledButton } from '@mantine/core';
import { useMemo } from 'react';

import type { FleetNode } from '@/api/fleet';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Rows, type Column } from '@/ui/Rows';
import { Mark } from '@/ui/Status';

import { cellsOf, type Occupancy } from './cells';
import { useNodeState } from './NodeMap';
import { words } from './text';

export function NodeList({ nodes, occupancy, open }: { nodes: readonly FleetNode[]; occupancy: Occupancy | null; open: (node: FleetNode) => void }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const state = useNodeState();
  const columns = useMemo<Column<FleetNode>[]>(
    () => [
      {
        key: 'name',
        header: w('node'),
        width: 'minmax(8rem, 1.2fr)',
        cell: (node) => (
          <UnstyledButton aria-haspopup="dialog" onClick={() => open(node)} c="var(--mantine-color-anchor)" fz="sm" fw={600}>
            {node.name}
          </UnstyledButton>
        ),
      },
      { key: 'pool', header: w('pool'), width: 'minmax(6rem, 1fr)', isMinor: true, cell: (node) => <Text size="sm">{`${node.cluster.name}/${node.pool.name}`}</Text> },
      {
        key: 'state',
        header: w('state'),
        width: '8rem',
        cell: (node) => <Mark icon={!node.ready ? 'alert' : node.cordoned ? 'pause' : 'check'} color={!node.ready ? 'red' : node.cordoned ? 'orange' : 'teal'} label={state(node)} size="sm" />,
      },
      { key: 'gpus', header: w('gpus'), width: '6rem', cell: (node) => <Text size="sm">{`${format.milli(node.allocated.gpu_millis)} / ${format.milli(node.capacity.gpu_millis)}`}</Text> },
      {
        key: 'who',
        header: t('use'),
        width: 'minmax(8rem, 3fr)',
        isMinor: true,
        cell: (node) => {
          const jobs = [...new Set(cellsOf(node, occupancy?.get(node.id)).flatMap((cell) => (cell.kind === 'broken' ? [t('gpuBroken', { index: cell.index })] : cell.occupant?.tenant ? [t('byJob', { tenant: cell.occupant.tenant, user: cell.occupant.user ?? '–', job: cell.occupant.job_name ?? '–' })] : cell.kind === 'other' ? [cell.occupant ? t('byAnother') : t('inUse')] : [])))];
          return (
            <Text size="sm" truncate title={jobs.join('\n')}>
              {jobs.join('; ') || t('nobody')}
            </Text>
          );
        },
      },
    ],
    [t, w, format, state, occupancy, open],
  );
  return <Rows label={t('list')} rows={nodes} columns={columns} rowKey={(node) => node.id} total={nodes.length} />;
}
