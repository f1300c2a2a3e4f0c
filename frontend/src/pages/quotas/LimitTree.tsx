/** The cells: four numbers for each queue, with sums against what is above and what is wrong right below each. */

import { Box, Button, Group, Progress, Table, Text } from '@mantine/core';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';

import { asTree, fitting } from '@/pages/tenants/tree';
import { amountText, type Resource } from '@/text/amounts';
import { useText } from '@/text/language';
import { Mark } from '@/ui/Status';
import { Window } from '@/ui/Window';

import classes from './Cells.module.css';
import { COLUMNS, owed, type Checked, type Column, type Fault, type Limit } from './check';
import { cellKey, draftLimit, isRoot, readText, shownText, storedLimit, type Draft, type Queue } from './draft';
import type { PoolSize } from './index';
import { Rules } from './Rules';
import { words } from './text';

export type Right = 'set' | 'ask' | 'look';

interface TreeProps {
  queues: readonly Queue[];
  pool: PoolSize;
  resource: Resource;
  draft: Draft;
  rights: ReadonlyMap<string, Right>;
  checked: Checked;
  query: string;
  here: string | null;
  change: (key: string, text: string | null) => void;
}

const ROW_PX = 64;
const idOf = (queue: Queue) => queue.id;
const parentOf = (queue: Queue) => queue.parent_id;

export function LimitTree({ queues, pool, resource, draft, rights, checked, query, here, change }: TreeProps) {
  const t = useText(words);
  const [ruled, setRuled] = useState<Queue | null>(null);
  const close = () => setRuled(null);
  const shown = useMemo(() => {
    const lower = query.toLocaleLowerCase();
    return asTree(lower ? fitting(queues, idOf, parentOf, (queue) => `${queue.path}\n${queue.tenant?.name ?? ''}`.toLocaleLowerCase().includes(lower)) : queues, idOf, parentOf, (queue) => queue.name);
  }, [queues, query]);
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: shown.length, getScrollElement: () => scroller.current, estimateSize: () => ROW_PX, overscan: 8, getItemKey: (index) => shown[index]?.row.id ?? index });
  const drawn = virtual.getVirtualItems();
  const place = here === null ? -1 : shown.findIndex(({ row }) => row.id === here);
  useEffect(() => {
    if (place > 0) virtual.scrollToIndex(place, { align: 'center' });
    // Once: later it is the person who scrolls.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [here]);
  return (
    <>
      <div ref={scroller} className={classes.scroller} data-covered={Object.keys(draft).length > 0 || undefined} tabIndex={0} role="region" aria-label={t('title')}>
        <Table aria-label={t('title')} aria-rowcount={shown.length + 1} verticalSpacing={6} stickyHeader layout="fixed" miw={1010}>
          <Table.Thead>
            <Table.Tr aria-rowindex={1}>
              <Table.Th>{t('queue')}</Table.Th>
              <Table.Th w={150}>{t('inUse')}</Table.Th>
              {COLUMNS.map((column) => (
                <Table.Th key={column} w={145}>
                  {t(column)}
                  <Text size="xs" c="dimmed" fw={400} maw={150}>
                    {t(`${column}Means`)}
                  </Text>
                </Table.Th>
              ))}
              <Table.Th w={90}>{t('rules')}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            <Gap height={drawn[0]?.start ?? 0} />
            {drawn.map(({ index }) => {
              const { row, depth } = shown[index] as (typeof shown)[number];
              const texts: Partial<Record<Column, string>> = {};
              for (const column of COLUMNS) texts[column] = draft[cellKey(row.id, pool.id, resource, column)];
              return (
                <Row
                  key={row.id}
                  index={index}
                  measure={virtual.measureElement}
                  queue={row}
                  depth={depth}
                  pool={pool}
                  resource={resource}
                  texts={JSON.stringify(texts)}
                  right={rights.get(row.id) ?? 'look'}
                  faults={JSON.stringify(checked.faults.get(row.id) ?? [])}
                  sums={JSON.stringify(checked.sums.get(row.id) ?? null)}
                  isHere={here === row.id}
                  change={change}
                  rule={setRuled}
                />
              );
            })}
            <Gap height={virtual.getTotalSize() - (drawn.at(-1)?.end ?? 0)} />
          </Table.Tbody>
        </Table>
      </div>
      {shown.length === 0 && <Text c="dimmed">{t('noMatch')}</Text>}
      {ruled && (
        <Window title={t('rulesOf', { name: ruled.name })} onClose={close}>
          <Rules queue={ruled} mayEdit={rights.get(ruled.id) === 'set'} close={close} />
        </Window>
      )}
      <Text size="xs" c="dimmed">
        {t('shortcuts')} {[...rights.values()].includes('ask') && t('askHint')}
      </Text>
    </>
  );
}

/** The place of rows that are out of sight: hundreds of queues with their fields would make each key slow. */
function Gap({ height }: { height: number }) {
  return height > 0 ? <tr aria-hidden="true" style={{ height }} /> : null;
}

interface RowProps {
  index: number;
  measure: (row: Element | null) => void;
  queue: Queue;
  depth: number;
  pool: PoolSize;
  resource: Resource;
  /** Plain JSON, so that a row that did not change is not drawn anew while somebody types in another. */
  texts: string;
  faults: string;
  sums: string;
  right: Right;
  isHere: boolean;
  change: (key: string, text: string | null) => void;
  rule: (queue: Queue) => void;
}

const Row = memo(
  function Row({ index, measure, queue, depth, pool, resource, texts, faults, sums, right, isHere, change, rule }: RowProps) {
    const t = useText(words);
    const typed = JSON.parse(texts) as Partial<Record<Column, string>>;
    const wrong = JSON.parse(faults) as Fault[];
    const sum = JSON.parse(sums) as { guarantee: number; deserved: number } | null;
    const before = storedLimit(queue, pool.id, resource);
    const draft: Draft = Object.fromEntries(Object.entries(typed).map(([column, text]) => [cellKey(queue.id, pool.id, resource, column as Column), text]));
    const after = draftLimit(queue, pool.id, resource, draft);
    const used = queue.pools.find((part) => part.pool.id === pool.id)?.used[resource] ?? 0;
    const most = after.ceiling ?? pool.capacity[resource];
    const isTop = isRoot(queue);
    return (
      <Table.Tr ref={measure} data-index={index} aria-rowindex={index + 2} className={classes.row} data-here={isHere || undefined}>
        <Table.Td>
          <Box pl={depth * 22} style={{ overflowWrap: 'anywhere' }}>
            <Group gap="xs">
              <Text fw={600}>{isTop ? pool.name : queue.name}</Text>
              {right === 'ask' && <Mark icon="approvals" color="grape" label={t('askMark')} size="sm" />}
            </Group>
            {queue.tenant && (
              <Text size="xs" c="dimmed">
                {queue.tenant.name}
              </Text>
            )}
          </Box>
        </Table.Td>
        <Table.Td>
          <Text size="sm" style={{ whiteSpace: 'nowrap' }}>
            {amountText(resource, used)} / {amountText(resource, most)}
          </Text>
          <Progress value={most > 0 ? Math.min(100, (used / most) * 100) : 0} size="sm" color={used > most ? 'red' : used > owed(after) && owed(after) > 0 ? 'yellow' : 'teal'} aria-label={`${t('inUse')}: ${queue.name}`} />
        </Table.Td>
        {COLUMNS.map((column) => (
          <Table.Td key={column}>
            {isTop ? null : (
              <Cell queue={queue} pool={pool} resource={resource} column={column} text={typed[column]} before={before} after={after} isOff={right === 'look'} fault={wrong.find((fault) => fault.column === column)} change={change} />
            )}
            {(column === 'guarantee' || column === 'deserved') && sum && <Sum sum={sum[column]} most={isTop ? pool.capacity[resource] : column === 'guarantee' ? after.guarantee : owed(after)} resource={resource} isTop={isTop} />}
          </Table.Td>
        ))}
        <Table.Td>
          {!isTop && (
            <Button variant="subtle" size="compact-sm" aria-label={t('rulesOf', { name: queue.name })} aria-haspopup="dialog" onClick={() => rule(queue)}>
              {t('rules')}
            </Button>
          )}
        </Table.Td>
      </Table.Tr>
    );
  },
  (one, other) => one.index === other.index && one.queue === other.queue && one.depth === other.depth && one.pool === other.pool && one.resource === other.resource && one.texts === other.texts && one.faults === other.faults && one.sums === other.sums && one.right === other.right && one.isHere === other.isHere,
);

function Sum({ sum, most, resource, isTop }: { sum: number; most: number; resource: Resource; isTop: boolean }) {
  const t = useText(words);
  const isOver = sum > most;
  return (
    <span className={`${classes.note} ${isOver ? classes.fault : ''}`}>
      {isOver && '⚠ '}
      {t(isTop ? 'given' : 'below', { sum: amountText(resource, sum), most: amountText(resource, most) })}
    </span>
  );
}

interface CellProps {
  queue: Queue;
  pool: PoolSize;
  resource: Resource;
  column: Column;
  text: string | undefined;
  before: Limit;
  after: Limit;
  isOff: boolean;
  fault: Fault | undefined;
  change: (key: string, text: string | null) => void;
}

function Cell({ queue, pool, resource, column, text, before, after, isOff, fault, change }: CellProps) {
  const t = useText(words);
  const key = cellKey(queue.id, pool.id, resource, column);
  const stored = shownText(before, resource, column);
  const isChanged = text !== undefined && after[column] !== before[column];
  const isWrong = text !== undefined && Number.isNaN(readText(text, resource, column));
  const said = isWrong ? t('notNumber') : fault && t(fault.code, { bound: amountText(resource, fault.bound), is: amountText(resource, fault.is), over: amountText(resource, fault.is - fault.bound) });
  const isSum = fault?.code === 'sum_above_parent';
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === 'Escape' && text !== undefined) {
      event.preventDefault();
      change(key, null);
    } else if (event.key === 'Enter' || event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      neighbour(event.currentTarget, event.key === 'ArrowUp' ? -1 : 1)?.focus();
    }
  };
  return (
    <>
      <input
        className={classes.cell}
        inputMode="decimal"
        aria-label={t('cellOf', { column: t(column), queue: queue.name })}
        aria-invalid={isWrong || (fault && !isSum) ? true : undefined}
        aria-describedby={said ? `${key}-said` : undefined}
        data-column={column}
        data-changed={isChanged || undefined}
        placeholder={column === 'ceiling' ? t('noneShort') : column === 'deserved' ? amountText(resource, after.guarantee) : undefined}
        value={text ?? stored}
        disabled={isOff}
        onChange={(event) => change(key, event.currentTarget.value === stored ? null : event.currentTarget.value)}
        onKeyDown={press}
      />
      {said && !isSum && (
        <span id={`${key}-said`} className={`${classes.note} ${classes.fault}`}>
          ⚠ {said}
        </span>
      )}
      {isChanged && !said && <span className={classes.note}>{t('wasBefore', { value: stored || t('noneShort') })}</span>}
    </>
  );
}

/** The same column's cell in the next row that has one. */
function neighbour(cell: HTMLInputElement, step: 1 | -1): HTMLInputElement | undefined {
  const all = [...(cell.closest('table')?.querySelectorAll<HTMLInputElement>(`input[data-column="${cell.dataset.column ?? ''}"]:not(:disabled)`) ?? [])];
  return all[all.indexOf(cell) + step];
}
