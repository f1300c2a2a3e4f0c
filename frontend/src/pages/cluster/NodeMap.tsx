/** Nodes as tiles by cluster and pool. Only the lines in sight are drawn, so thousands of nodes scroll as a dozen do. */

import { Box, Text, UnstyledButton, VisuallyHidden } from '@mantine/core';
import { useElementSize, useMergedRef } from '@mantine/hooks';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useEffect, useMemo, useRef } from 'react';

import type { FleetNode } from '@/api/fleet';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';

import { cellsOf, mapRows, type Occupancy, type Occupied } from './cells';
import { GpuCell, useCellWords } from './GpuCell';
import classes from './Map.module.css';
import { words } from './text';

const TILE_WIDTH = 216; // Eight GPUs in a line, with the tile's own edges.
const HEAD_HEIGHT = 34;
const NAME_HEIGHT = 46;
const LINE_OF_GPUS = 23;

export function NodeMap({ nodes, occupancy, open }: { nodes: readonly FleetNode[]; occupancy: Occupancy | null; open: (node: FleetNode) => void }) {
  const t = useText(words);
  const scroller = useRef<HTMLDivElement>(null);
  const { ref: measure, width } = useElementSize();
  const ref = useMergedRef(scroller, measure);
  const perLine = Math.max(1, Math.floor((width - 20) / (TILE_WIDTH + 8)));
  const rows = useMemo(() => mapRows(nodes, perLine), [nodes, perLine]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => {
      const row = rows[index];
      if (!row || row.kind === 'head') return HEAD_HEIGHT;
      const gpus = Math.max(...row.nodes.map((node) => node.gpus.length));
      return NAME_HEIGHT + LINE_OF_GPUS * Math.max(1, Math.ceil(gpus / 8));
    },
    overscan: 6,
    getItemKey: (index) => rows[index]?.key ?? index,
  });
  useEffect(() => virtual.measure(), [rows, virtual]);
  return (
    <Box ref={ref} className={classes.scroller} style={{ height: `min(${virtual.getTotalSize() + 10}px, max(24rem, calc(100vh - 16rem)))` }} tabIndex={0} role="region" aria-label={t('map')}>
      <div style={{ height: virtual.getTotalSize(), position: 'relative' }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (!row) return null;
          const place = { height: item.size, transform: `translateY(${item.start}px)` };
          if (row.kind === 'head') {
            return (
              <div key={item.key} className={classes.head} style={place}>
                <Text component="h3" size="sm" fw={600}>
                  {row.node.cluster.name}/{row.node.pool.name}
                </Text>
                <Text size="xs" c="dimmed">
                  {[row.node.gpu_model, row.count].filter(Boolean).join(' · ')}
                </Text>
              </div>
            );
          }
          return (
            <div key={item.key} className={classes.line} style={{ ...place, gridTemplateColumns: `repeat(${perLine}, minmax(0, 1fr))` }}>
              {row.nodes.map((node) => (
                <Tile key={node.id} node={node} occupied={occupancy?.get(node.id)} open={open} />
              ))}
            </div>
          );
        })}
      </div>
    </Box>
  );
}

export function useNodeState(): (node: FleetNode) => string {
  const t = useText(words);
  return (node) => (!node.ready ? t('notReady') : node.cordoned ? (node.allocated.cpu_millis === 0 ? t('emptied') : t('cordoned')) : t('ready'));
}

/** Drawn anew only when its node changes, not while one scrolls. */
const Tile = memo(function Tile({ node, occupied, open }: { node: FleetNode; occupied: Occupied | undefined; open: (node: FleetNode) => void }) {
  const t = useText(words);
  const format = useFormat();
  const say = useCellWords();
  const state = useNodeState()(node);
  const cells = cellsOf(node, occupied);
  const used = format.milli(node.allocated.gpu_millis);
  return (
    <UnstyledButton
      className={classes.tile}
      data-simulated={node.gpus_simulated || undefined}
      aria-haspopup="dialog"
      onClick={() => open(node)}
      title={node.gpus_simulated ? t('simulatedHint') : undefined}
    >
      <VisuallyHidden>{t('nodeLabel', { name: node.name, pool: node.pool.name, used, all: format.milli(node.capacity.gpu_millis), state })}</VisuallyHidden>
      <span className={classes.name} aria-hidden="true">
        <span>{node.name}</span>
        <Text component="span" inherit className={classes.note} c={node.ready && !node.cordoned ? 'dimmed' : node.ready ? 'orange' : 'red'}>
          {node.ready && !node.cordoned ? (node.gpus_simulated ? '≈' : '') : `${node.ready ? '×' : '!'} ${state}`}
        </Text>
      </span>
      {cells.length > 0 ? (
        <span className={classes.cells}>
          {cells.map((cell) => (
            <GpuCell key={cell.index} cell={cell} title={say(cell)} />
          ))}
        </span>
      ) : (
        <Text size="xs" c="dimmed">
          {t('cpuOnly', { used: format.milli(node.allocated.cpu_millis), all: format.milli(node.capacity.cpu_millis) })}
        </Text>
      )}
    </UnstyledButton>
  );
});
