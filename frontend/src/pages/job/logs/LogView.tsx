/**
 * The lines in sight. It follows the log's end until its reader scrolls up, and keeps the line that is read where it is while others
 * come before or behind it. Only the rows in sight are in the document, however long the log is and however fast it grows.
 */

import { useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState, type Ref } from 'react';

import { useText } from '@/text/language';

import { layoutOf, ROW_PX } from './layout';
import type { Line } from './lines';
import { LogLine } from './LogLine';
import classes from './Logs.module.css';
import { indexOfId } from './search';
import { words } from './text';
import type { LogReader } from './useLog';

const OVERSCAN_PX = 400;
const NEAR_PX = 300;

export interface LogViewHandle {
  show: (id: number) => void;
  toEnd: () => void;
  toTop: () => void;
}

export function LogView({
  reader,
  isFollowing,
  setFollowing,
  wrap,
  withTime,
  withTask,
  word,
  current,
  ref,
}: {
  reader: LogReader;
  isFollowing: boolean;
  setFollowing: (isFollowing: boolean) => void;
  wrap: boolean;
  withTime: boolean;
  withTask: boolean;
  word: string;
  /** The id of the line that was searched for. */
  current: number | null;
  ref: Ref<LogViewHandle>;
}) {
  const t = useText(words);
  const scroller = useRef<HTMLDivElement>(null);
  const probe = useRef<HTMLSpanElement>(null);
  const lastTop = useRef(0);
  const anchor = useRef<{ id: number; offset: number } | null>(null);
  const [view, setView] = useState({ top: 0, height: 600, columns: 100 });
  const [expanded, setExpanded] = useState<ReadonlySet<number>>(new Set());
  const { lines, version } = reader.window;
  const columns = wrap ? Math.max(20, view.columns - (withTime ? 14 : 0) - (withTask ? 15 : 0) - 6) : null;
  const layout = useMemo(
    () => layoutOf(lines, columns, expanded),
    // The window's lines change in place; its version says when.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [lines, version, columns, expanded],
  );
  const first = layout.at(view.top - OVERSCAN_PX);
  const last = Math.min(lines.length - 1, layout.at(view.top + view.height + OVERSCAN_PX));

  const place = useCallback((top: number) => {
    const element = scroller.current;
    if (!element) return;
    element.scrollTop = top;
    lastTop.current = element.scrollTop;
    const height = element.clientHeight;
    setView((old) => (old.top === element.scrollTop && old.height === height ? old : { ...old, top: element.scrollTop, height }));
  }, []);

  // After every change: at the end when following, else the line that stood on top stands there still.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    if (isFollowing) {
      place(element.scrollHeight);
      return;
    }
    const kept = anchor.current;
    const index = kept ? indexOfId(lines, kept.id) : -1;
    if (kept && index >= 0) {
      const top = layout.top(index) + kept.offset;
      if (Math.abs(top - element.scrollTop) > 1) place(top);
    }
  }, [layout, lines, isFollowing, place]);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const measure = () => {
      const letter = (probe.current?.getBoundingClientRect().width ?? 800) / 100;
      setView({ top: element.scrollTop, height: element.clientHeight, columns: Math.floor((element.clientWidth - 24) / Math.max(4, letter)) });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // A log shorter than the page has nothing to scroll up in: what stands before is read at once.
  const isShort = layout.total < view.height + NEAR_PX;
  useEffect(() => {
    if (reader.isReady && !reader.reading && !reader.problem && !reader.window.isAtStart && isShort) void reader.older();
  });

  const scrolled = () => {
    const element = scroller.current;
    if (!element) return;
    const top = element.scrollTop;
    const room = element.scrollHeight - element.clientHeight - top;
    const goesUp = top < lastTop.current - 1;
    lastTop.current = top;
    const index = layout.at(top);
    const line = lines[index];
    anchor.current = line ? { id: line.id, offset: top - layout.top(index) } : null;
    setView((old) => ({ ...old, top, height: element.clientHeight }));
    if (goesUp && isFollowing && room > 2) setFollowing(false);
    else if (room <= 2 && !isFollowing && reader.window.isAttached) setFollowing(true);
    if (top < NEAR_PX && goesUp) void reader.older();
    else if (room < NEAR_PX && !goesUp) void reader.newer();
  };

  useImperativeHandle(
    ref,
    () => ({
      show: (id) => {
        const index = indexOfId(reader.window.lines, id);
        if (index < 0) return;
        const top = Math.max(0, layoutOf(reader.window.lines, columns, expanded).top(index) - view.height / 3);
        anchor.current = null;
        requestAnimationFrame(() => place(top));
      },
      toEnd: () => place(scroller.current?.scrollHeight ?? 0),
      toTop: () => {
        anchor.current = null;
        requestAnimationFrame(() => place(0));
      },
    }),
    [reader, columns, expanded, view.height, place],
  );

  const expand = useCallback((id: number) => {
    setExpanded((old) => {
      const next = new Set(old);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);

  const shown: Line[] = [];
  for (let index = first; index <= last; index += 1) shown.push(lines[index] as Line);
  return (
    <div ref={scroller} className={classes.scroller} data-wrap={wrap || undefined} onScroll={scrolled} tabIndex={0} role="log" aria-live="off" aria-label={t('log')}>
      <span ref={probe} className={classes.probe} aria-hidden="true">
        {'0'.repeat(100)}
      </span>
      <div className={classes.all} style={{ height: layout.total + ROW_PX / 2 }}>
        <div className={classes.shown} style={{ transform: `translateY(${lines.length > 0 ? layout.top(first) : 0}px)` }}>
          {shown.map((line) => (
            <LogLine key={line.id} line={line} text={line.text} style={line.style} withTime={withTime} withTask={withTask} isExpanded={expanded.has(line.id)} word={word} isCurrent={line.id === current} expand={expand} />
          ))}
        </div>
      </div>
    </div>
  );
}
