/** A table of any length: only the rows in sight are drawn. For a few dozen rows use Mantine's Table. */

import { Box } from '@mantine/core';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useCallback, useDeferredValue, useEffect, useImperativeHandle, useRef, type ReactNode, type Ref } from 'react';

import classes from './Rows.module.css';

export interface Column<T> {
  key: string;
  header: ReactNode;
  /** A CSS grid track, such as `minmax(12rem, 2fr)` or `7rem`. */
  width: string;
  cell: (row: T) => ReactNode;
  /** Left out on narrow screens. */
  isMinor?: boolean;
}

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
  const tracks = columns.map((column) => column.width).join(' ');
  const needed = `calc(2.75rem + ${rows.length * rowHeight + 4}px)`; // With its head and its frame.
  const narrow = columns.filter((column) => !column.isMinor).map((column) => column.width).join(' ');
  return (
    <Box ref={scroller} className={classes.scroller} style={{ height: `min(${height}, ${needed})`, '--tracks': tracks, '--narrow': narrow }} tabIndex={0} role="region" aria-label={label} onScroll={onTop ? scrolled : undefined}>
      <div role="table" aria-label={label} aria-rowcount={(total ?? rows.length) + 1}>
        <div role="rowgroup" className={classes.head}>
          <div role="row" aria-rowindex={1} className={classes.row}>
            {columns.map((column) => (
              <div role="columnheader" key={column.key} className={column.isMinor ? classes.minor : undefined}>
                {column.header}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: 'relative' }}>
          {items.map((item) => {
            const row = rows[item.index] as T;
            return (
              <div
                role="row"
                aria-rowindex={item.index + 2}
                key={item.key}
                className={`${classes.row} ${classes.body}`}
                data-selected={selected?.(row) || undefined}
                style={{ height: item.size, transform: `translateY(${item.start}px)` }}
              >
                <Cells row={row} columns={columns as readonly Column<unknown>[]} isSelected={selected?.(row) ?? false} />
              </div>
            );
          })}
        </div>
      </div>
    </Box>
  );
}

/** Drawn anew only when the row itself, its selection or the columns change: one change among many rows costs one row. */
const Cells = memo(function Cells({ row, columns }: { row: unknown; columns: readonly Column<unknown>[]; isSelected: boolean }) {
  return columns.map((column) => (
    <div role="cell" key={column.key} className={`${classes.cell} ${column.isMinor ? classes.minor : ''}`}>
      {column.cell(row)}
    </div>
  ));
});

/** The row may not be drawn yet right after scrolling to it. */
function focusRow(scroller: HTMLElement | null, index: number, tries: number): void {
  const link = scroller?.querySelector<HTMLElement>(`[aria-rowindex="${index + 2}"] a`);
  if (link) link.focus({ preventScroll: true });
  else if (tries > 0) requestAnimationFrame(() => focusRow(scroller, index, tries - 1));
}
