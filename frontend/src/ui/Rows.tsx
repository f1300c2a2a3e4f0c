/**
 * A table of any length: only the rows in sight are drawn. For a few dozen rows use Mantine's Table.
 *
 * Columns and which of them are shown are TanStack Table's. It is given the rows in sight, not all: what it makes of a row costs more
 * than the row, and order and filters are the server's.
 */

import { Box } from '@mantine/core';
import { getCoreRowModel, useReactTable, type Column as ShownColumn, type ColumnDef, type Row as RowInSight, type RowData, type VisibilityState } from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useCallback, useDeferredValue, useEffect, useImperativeHandle, useMemo, useRef, type ReactNode, type Ref } from 'react';

import classes from './Rows.module.css';

export interface Column<T> {
  key: string;
  header: ReactNode;
  /** A CSS grid track, such as `minmax(12rem, 2fr)` or `7rem`. */
  width: string;
  cell: (row: T) => ReactNode;
  /** Left out on narrow screens. */
  isMinor?: boolean;
  /** For the menu of columns: whether it is shown unless the person chooses otherwise. Without it the column is always there. */
  choice?: 'shown' | 'hidden';
}

type OurColumn<T> = Column<T>;

declare module '@tanstack/react-table' {
  // The names of its parameters, as TypeScript asks for where an interface is added to.
  interface ColumnMeta<TData extends RowData, TValue> extends OurColumn<TData> {}
}

const ALL_SHOWN: VisibilityState = {};
const core = getCoreRowModel<unknown>();

/** What a page may ask of its table: bring a row into sight, and put the keyboard on it. */
export interface RowsHandle {
  focus: (index: number) => void;
  toTop: () => void;
}

const TOP_PX = 40;

export function Rows<T>({
  label,
  rows: latest,
  columns,
  visibility = ALL_SHOWN,
  rowKey,
  rowHeight = 44,
  height = 'calc(100vh - 19rem)',
  onEnd,
  total,
  selected,
  onTop,
  handle,
}: {
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  /** Columns by key; one that is not named is shown. See `useColumnChoice`. */
  visibility?: VisibilityState;
  /** Its own id; its place where it has none, as rows of others that are shown without one. */
  rowKey: (row: T, index: number) => string;
  rowHeight?: number;
  /** At most this high; a table of few rows takes no more than they need. */
  height?: string;
  /** Called when the last rows come into sight: read the next page. */
  onEnd?: () => void;
  /** How many rows there are in all, when that is known. */
  total?: number;
  selected?: (row: T) => boolean;
  /** Called when the first row comes into sight, and when it leaves. */
  onTop?: (isTop: boolean) => void;
  handle?: Ref<RowsHandle>;
}) {
  const rows = useDeferredValue(latest); // A hundred new rows are drawn in slices, between the person's own clicks and keys.
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 6, useFlushSync: false, getItemKey: (index) => rowKey(rows[index] as T, index) });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  const definitions = useMemo(() => columns.map((column) => definition(column as Column<unknown>)), [columns]);
  const inSight = useMemo(() => items.map((item): unknown => rows[item.index]), [items, rows]);
  // Other rows in sight are no other table: setting its state back to the first page would draw it again, without an end.
  const table = useReactTable({ data: inSight, columns: definitions, state: { columnVisibility: visibility }, getCoreRowModel: core, autoResetAll: false });
  const shown = table.getVisibleLeafColumns();
  useEffect(() => {
    if (onEnd && rows.length > 0 && last >= rows.length - 20) onEnd();
  }, [last, rows.length, onEnd]);
  useImperativeHandle(
    handle,
    () => ({
      focus: (index) => {
        virtual.scrollToIndex(index);
        focusRow(scroller.current, index, 3);
      },
      toTop: () => scroller.current?.scrollTo({ top: 0 }),
    }),
    [virtual],
  );
  const wasTop = useRef(true);
  const scrolled = useCallback(() => {
    const isTop = (scroller.current?.scrollTop ?? 0) < TOP_PX;
    if (isTop === wasTop.current) return;
    wasTop.current = isTop;
    onTop?.(isTop);
  }, [onTop]);
  const tracks = shown.map((column) => ours(column).width).join(' ');
  const needed = `calc(2.75rem + ${rows.length * rowHeight + 4}px)`; // With its head and its frame.
  const narrow = shown.filter((column) => !ours(column).isMinor).map((column) => ours(column).width).join(' ');
  const drawn = table.getRowModel().rows;
  return (
    <Box ref={scroller} className={classes.scroller} style={{ height: `min(${height}, ${needed})`, '--tracks': tracks, '--narrow': narrow }} tabIndex={0} role="region" aria-label={label} onScroll={onTop ? scrolled : undefined}>
      <div role="table" aria-label={label} className={classes.table} aria-rowcount={(total ?? rows.length) + 1}>
        <div role="rowgroup" className={classes.head}>
          <div role="row" aria-rowindex={1} className={classes.row}>
            {table.getLeafHeaders().map((header) => (
              <div role="columnheader" key={header.id} className={ours(header.column).isMinor ? classes.minor : undefined}>
                {ours(header.column).header}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: 'relative' }}>
          {items.map((item, place) => {
            const row = rows[item.index] as T;
            const made = drawn[place];
            return (
              <div
                role="row"
                aria-rowindex={item.index + 2}
                key={item.key}
                className={`${classes.row} ${classes.body}`}
                data-selected={selected?.(row) || undefined}
                style={{ height: item.size, transform: `translateY(${item.start}px)` }}
              >
                {made && <Cells row={made} columns={shown} isSelected={selected?.(row) ?? false} />}
              </div>
            );
          })}
        </div>
      </div>
    </Box>
  );
}

interface CellsProps {
  row: RowInSight<unknown>;
  columns: readonly ShownColumn<unknown>[];
  isSelected: boolean;
}

/** Drawn anew only when what it shows, its selection or the columns change: one change among many rows costs one row. */
const Cells = memo(
  function Cells({ row }: CellsProps) {
    return row.getVisibleCells().map(({ column }) => (
      <div role="cell" key={column.id} className={`${classes.cell} ${ours(column).isMinor ? classes.minor : ''}`}>
        {ours(column).cell(row.original)}
      </div>
    ));
  },
  (before, after) => before.row.original === after.row.original && before.columns === after.columns && before.isSelected === after.isSelected,
);

function definition(column: Column<unknown>): ColumnDef<unknown> {
  return { id: column.key, enableHiding: column.choice !== undefined, meta: column };
}

/**
 * The column as the page wrote it. Its `cell` is called, not made a component of, as `flexRender` would: where a page makes its columns
 * anew, every cell would be another component, and the button with the focus would be gone.
 */
function ours(column: ShownColumn<unknown>): Column<unknown> {
  const { meta } = column.columnDef;
  if (!meta) throw new Error(`column ${column.id} has no meta`);
  return meta;
}

/** The row may not be drawn yet right after scrolling to it. */
function focusRow(scroller: HTMLElement | null, index: number, tries: number): void {
  const link = scroller?.querySelector<HTMLElement>(`[aria-rowindex="${index + 2}"] a`);
  if (link) link.focus({ preventScroll: true });
  else if (tries > 0) requestAnimationFrame(() => focusRow(scroller, index, tries - 1));
}
