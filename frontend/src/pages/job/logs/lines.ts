/**
 * Pages of a log as lines: whose they are, where they begin and end, and in what colour they begin.
 *
 * A page cuts its streams anywhere. The line that a page leaves unfinished moves into the next page that goes on with it, so that each
 * page of the window holds its lines whole and can be dropped and read again.
 */

import type { Schemas } from '@/api/client';

import { PLAIN, styleAfter, type Style } from './ansi';

export type LogItem = Schemas['LogItemOut'];

export interface Line {
  /** Grows from top to bottom over the window; never given twice. */
  id: number;
  role: string;
  index: number;
  stream: 'stdout' | 'stderr';
  at: string;
  text: string;
  /** The look that it begins with. */
  style: Style;
  /** Set where bytes are missing: `text` says why, this how many. */
  missing: number | null;
  /** It goes on: no end of line has come yet. */
  isOpen: boolean;
  /** Its beginning may lie before the window. */
  isCut: boolean;
}

/** What a page is cut from: a place in the log, and the item that stands first behind it. */
export interface Place {
  role: string;
  index: number;
  stream: string;
  offset: number;
}

const LINE_CHARS_MAX = 1 << 20; // One line without an end must not take all of the window.

export function streamOf(item: { role: string; index: number; stream: string }): string {
  return `${item.role}\n${item.index}\n${item.stream}`;
}

export function placeOf(item: LogItem): Place {
  const task = taskOf(item);
  return { role: task.role, index: task.index, stream: item.stream, offset: item.offset };
}

/** What one stream is in the middle of. */
export interface Tail {
  line: Line | null;
  style: Style;
}

/**
 * The lines of a page. `tails` holds what each stream was in the middle of, and is brought forward; a line that goes on is taken out of
 * its page by `release` and stands in this one.
 */
export function linesOf(items: readonly LogItem[], tails: Map<string, Tail>, nextId: () => number, release: (line: Line) => void = () => undefined): Line[] {
  const lines: Line[] = [];
  const here = new Set<Line>();
  const add = (line: Line) => {
    lines.push(line);
    here.add(line);
  };
  for (const item of items) {
    const task = taskOf(item);
    const key = `${task.role}\n${task.index}\n${item.stream}`;
    const known = tails.get(key);
    const tail: Tail = known ?? { line: null, style: PLAIN };
    if (!known) tails.set(key, tail);
    const base = { role: task.role, index: task.index, stream: item.stream, at: item.at };
    if (item.marker) {
      if (tail.line) tail.line.isOpen = false;
      tail.line = null;
      add({ ...base, id: nextId(), text: item.marker, style: PLAIN, missing: item.skipped_bytes, isOpen: false, isCut: false });
      continue;
    }
    let isCut = !known && item.offset > 0;
    let from = 0;
    const text = item.text;
    while (from < text.length) {
      const end = text.indexOf('\n', from);
      const piece = text.slice(from, end < 0 ? undefined : end);
      from = end < 0 ? text.length : end + 1;
      let line = tail.line;
      if (line && !here.has(line)) {
        release(line);
        line = { ...line, id: nextId() };
        add(line);
      }
      if (!line) {
        line = { ...base, id: nextId(), text: '', style: tail.style, missing: null, isOpen: true, isCut };
        add(line);
      }
      isCut = false;
      line.text = overwritten(line.text + piece, end >= 0);
      tail.line = line;
      if (end >= 0 || line.text.length >= LINE_CHARS_MAX) {
        line.isOpen = false;
        tail.style = styleAfter(line.text, line.style);
        tail.line = null;
      }
    }
  }
  return lines;
}

/** A carriage return begins the line anew, as progress bars use it; only what stands there at last is kept. */
function overwritten(text: string, isWhole: boolean): string {
  if (!text.includes('\r')) return text;
  let end = text.length;
  while (end > 0 && text[end - 1] === '\r') end -= 1;
  const from = text.lastIndexOf('\r', end - 1) + 1;
  return isWhole ? text.slice(from, end) : text.slice(from);
}

/** The items of a page that stand before a place, and whether the place was among them. */
export function before(items: readonly LogItem[], place: Place): { items: LogItem[]; found: boolean } {
  const kept: LogItem[] = [];
  for (const item of items) {
    const task = taskOf(item);
    if (task.role === place.role && task.index === place.index && item.stream === place.stream) {
      if (item.offset >= place.offset) return { items: kept, found: true };
      const text = firstBytes(item.text, place.offset - item.offset);
      if (!item.marker && text.length < item.text.length) return { items: [...kept, { ...item, text }], found: true };
    }
    kept.push(item);
  }
  return { items: kept, found: false };
}

/** So much of a text as so many bytes of the log gave. What was no UTF-8 came as U+FFFD, of one byte each. */
function firstBytes(text: string, bytes: number): string {
  let room = bytes;
  let index = 0;
  while (index < text.length) {
    const code = text.codePointAt(index) ?? 0;
    room -= code < 0x80 || code === 0xfffd ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (room < 0) break;
    index += code > 0xffff ? 2 : 1;
  }
  return text.slice(0, index);
}

export function taskOf(item: LogItem): { role: string; index: number } {
  const task = item.task as { role?: unknown; index?: unknown };
  return { role: typeof task.role === 'string' ? task.role : '', index: typeof task.index === 'number' ? task.index : 0 };
}
