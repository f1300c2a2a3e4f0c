/**
 * The part of a log that the page holds: a run of pages, bounded in lines and characters, that grows at its live end or, once its reader
 * has scrolled up, at its beginning.
 *
 * The log itself may be of any size and speed. At its live end the oldest pages are dropped for new ones; while somebody reads further
 * up nothing is taken away from under them, and the window lets go of the live end once it is full. What was dropped is read again.
 */

import { isSameStyle, strip, styleAfter, type Style } from './ansi';
import { before, linesOf, placeOf, streamOf, type Line, type LogItem, type Place, type Tail } from './lines';

export const LINES_MAX = 50_000;
const CHARS_MAX = 8 << 20; // 16 MiB of UTF-16.

export interface LogPage {
  items: readonly LogItem[];
  cursor: string;
  complete: boolean;
}

/** Reads behind a cursor, so many stored rows at most: a row may be 256 KiB. */
export type Read = (cursor: string, rows: number) => Promise<LogPage>;

interface Block {
  /** Where to read from to get it again; null: only known to begin at `place`. */
  start: string | null;
  end: string;
  place: Place;
  items: number;
  lines: number;
  chars: number;
}

const START = '0-0';
const BACK_ROWS = 4;
const BACK_ROWS_MAX = 480; // Below a page of 500 items.
const BACK_TRIES = 14;

/** The cursor so many stored rows before another, and whether that is the beginning. Null where cursors are not of this form. */
export function earlier(cursor: string, rows: number): { cursor: string; isStart: boolean } | null {
  const match = /^(\d+)-\d+$/.exec(cursor);
  if (!match) return null;
  const row = Number(match[1]) - rows;
  return row > 0 ? { cursor: `${row}-0`, isStart: false } : { cursor: START, isStart: true };
}

export class LogWindow {
  lines: Line[] = [];
  /** How many lines came at the end since somebody last looked there. */
  unseen = 0;
  /** Nothing of the log lies before the window. */
  isAtStart = true;
  /** The window's end is the log's end, as far as we know it. */
  isAttached = true;
  /** The log has its last line. */
  isComplete = false;
  version = 0;
  private blocks: Block[] = [];
  private chars = 0;
  private tails = new Map<string, Tail>();
  private highest = 0;
  private lowest = 0;
  private backRows = BACK_ROWS;
  private cursorAtEnd = START;
  private listeners = new Set<() => void>();

  constructor(
    private readonly linesMax = LINES_MAX,
    private readonly charsMax = CHARS_MAX,
  ) {}

  watch = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = (): number => this.version;

  /** Where to go on reading behind the last line. */
  get cursor(): string {
    return this.cursorAtEnd;
  }

  /** Begin anew with one page. `start` is where it was read from, null: somewhere near the end. */
  reset(page: LogPage, start: string | null, isAttached: boolean): void {
    this.lines = [];
    this.blocks = [];
    this.chars = 0;
    this.tails = new Map();
    this.unseen = 0;
    this.backRows = BACK_ROWS;
    this.isAttached = isAttached;
    this.isAtStart = start === START;
    this.isComplete = false;
    this.cursorAtEnd = page.cursor;
    this.append(page, start, true);
    this.unseen = 0;
    const first = page.items[0];
    if (start === null) this.isAtStart = first === undefined || earlier(page.cursor, 1)?.isStart === true;
  }

  /** New pages at the end. `isWatched`: somebody looks at the end, so that the oldest may go. */
  extend(pages: readonly LogPage[], isWatched: boolean): void {
    if (!this.isAttached) return;
    const had = this.highest;
    for (const page of pages) {
      if (!isWatched && this.isFull) {
        this.isAttached = false; // What follows is read when somebody comes down to it.
        break;
      }
      this.append(page, this.cursorAtEnd, isWatched);
    }
    this.unseen = isWatched ? 0 : this.unseen + this.highest - had;
    this.changed();
  }

  /** A page read behind the end of a window that had let go of it. */
  continue(page: LogPage): void {
    this.append(page, this.cursorAtEnd, true);
    if (page.items.length === 0) this.isAttached = true;
    this.changed();
  }

  seen(): void {
    if (this.unseen === 0) return;
    this.unseen = 0;
    this.changed();
  }

  /** Read what stands before the window and put it there. Gives how many lines came. */
  async readOlder(read: Read): Promise<number> {
    const first = this.blocks[0];
    if (!first || this.isAtStart) return 0;
    const anchor = first.start ?? first.end;
    let rows = first.start === null ? Math.min(BACK_ROWS_MAX, first.items + this.backRows) : this.backRows;
    for (let count = 0; count < BACK_TRIES; count += 1) {
      const from = earlier(anchor, rows);
      if (!from) break;
      const page = await read(from.cursor, rows + 2);
      if (this.blocks[0] !== first) return 0; // The window moved on while we read.
      const found = before(page.items, first.place);
      if (found.found && (found.items.length > 0 || from.isStart)) {
        if (found.items.length > 0) this.prepend(found.items, from.cursor, first);
        this.isAtStart = from.isStart;
        const lines = this.blocks[0]?.lines ?? 0;
        if (lines < 500) this.backRows = Math.min(BACK_ROWS_MAX, this.backRows * 2);
        else if (lines > 4_000) this.backRows = Math.max(1, this.backRows >> 1);
        this.changed();
        return found.items.length > 0 ? lines : 0;
      }
      if (found.found) rows *= 4; // Rows of other streams lie between.
      else if (first.start === null && count < 3) rows = Math.max(1, rows >> 1);
      else {
        const joined = await this.readUpTo(page, first, read);
        if (!joined || this.blocks[0] !== first) return 0;
        this.prepend(joined, from.cursor, first);
        this.isAtStart = from.isStart;
        this.backRows = Math.max(1, this.backRows >> 1);
        this.changed();
        return this.blocks[0]?.lines ?? 0;
      }
    }
    this.isAtStart = true; // Nothing more can be found; better an end than a loop.
    this.changed();
    return 0;
  }

  /** The page does not reach the window: read on, a few pages at most. */
  private async readUpTo(page: LogPage, first: Block, read: Read): Promise<LogItem[] | null> {
    let items = [...page.items];
    let cursor = page.cursor;
    for (let count = 0; count < 8; count += 1) {
      const next = await read(cursor, 32);
      if (next.items.length === 0) return null;
      const found = before(next.items, first.place);
      items = [...items, ...found.items];
      if (found.found) return items;
      cursor = next.cursor;
    }
    return null;
  }

  private get isFull(): boolean {
    return this.lines.length >= this.linesMax || this.chars >= this.charsMax;
  }

  private append(page: LogPage, start: string | null, mayDrop: boolean): void {
    if (page.complete) this.isComplete = true;
    const first = page.items[0];
    if (first) {
      const lines = linesOf(page.items, this.tails, () => ++this.highest, (line) => this.release(line));
      const chars = charsOf(lines);
      this.blocks.push({ start, end: page.cursor, place: placeOf(first), items: page.items.length, lines: lines.length, chars });
      for (const line of lines) this.lines.push(line);
      this.chars += chars;
      if (mayDrop) this.dropOldest();
    }
    this.cursorAtEnd = page.cursor;
    this.version += 1;
  }

  private prepend(items: readonly LogItem[], start: string, next: Block): void {
    const tails = new Map<string, Tail>();
    const lines = linesOf(items, tails, () => 0);
    this.join(lines, tails);
    for (let index = lines.length - 1; index >= 0; index -= 1) (lines[index] as Line).id = --this.lowest;
    const chars = charsOf(lines);
    const last = items.at(-1) as LogItem;
    this.blocks.unshift({ start, end: next.start ?? next.end, place: placeOf(items[0] ?? last), items: items.length, lines: lines.length, chars });
    this.lines = [...lines, ...this.lines];
    this.chars += chars;
    this.dropNewest();
  }

  /**
   * Lines that older pages left unfinished belong to the first line of their stream in the window; and the colour that those pages end
   * in is the one in which it begins, down to where the log sets its own.
   */
  private join(older: Line[], tails: ReadonlyMap<string, Tail>): void {
    const waiting = new Map(tails);
    const styles = new Map<string, Style>();
    for (const line of this.lines) {
      if (waiting.size === 0 && styles.size === 0) return;
      if (line.missing !== null) continue;
      const stream = streamOf(line);
      const tail = waiting.get(stream);
      let style = styles.get(stream);
      if (tail) {
        waiting.delete(stream);
        if (line.isCut) style = tail.line?.style ?? tail.style; // Else its colour is known from what came before it once.
        this.joinLine(line, tail, older);
      }
      if (style === undefined) continue;
      if (!tail && isSameStyle(line.style, style)) styles.delete(stream);
      else {
        line.style = style;
        styles.set(stream, styleAfter(line.text, style));
      }
    }
    for (const [stream, style] of styles) {
      const end = this.tails.get(stream);
      if (end && !end.line) end.style = style;
    }
  }

  private joinLine(line: Line, tail: Tail, older: Line[]): void {
    if (!tail.line) {
      line.isCut = false;
      return;
    }
    if (line.isCut) line.text = tail.line.text + line.text;
    older.splice(older.lastIndexOf(tail.line), 1);
    line.isCut = line.isCut && tail.line.isCut;
  }

  /** A line goes on in a newer page and stands there from now on. */
  private release(line: Line): void {
    const index = this.lines.lastIndexOf(line);
    if (index < 0) return;
    this.lines.splice(index, 1);
    this.chars -= line.text.length;
    let upTo = this.lines.length + 1;
    for (let at = this.blocks.length - 1; at >= 0; at -= 1) {
      const block = this.blocks[at] as Block;
      upTo -= block.lines;
      if (index >= upTo) {
        block.lines -= 1;
        block.chars -= line.text.length;
        return;
      }
    }
  }

  private dropOldest(): void {
    let lines = 0;
    while (this.blocks.length > 1 && (this.lines.length - lines > this.linesMax || this.chars > this.charsMax)) {
      const block = this.blocks.shift() as Block;
      lines += block.lines;
      this.chars -= block.chars;
      this.isAtStart = false;
    }
    if (lines > 0) this.lines.splice(0, lines);
  }

  private dropNewest(): void {
    let lines = 0;
    while (this.blocks.length > 1 && (this.lines.length - lines > this.linesMax || this.chars > this.charsMax)) {
      const block = this.blocks.pop() as Block;
      lines += block.lines;
      this.chars -= block.chars;
      this.cursorAtEnd = block.start ?? block.end;
    }
    if (lines === 0) return;
    this.lines.splice(this.lines.length - lines, lines);
    this.isAttached = false;
    this.isComplete = false;
    const last = new Map<string, Line>();
    for (const line of this.lines) if (line.missing === null || !last.has(streamOf(line))) last.set(streamOf(line), line);
    this.tails = new Map([...last].map(([stream, line]) => [stream, line.isOpen ? { line, style: line.style } : { line: null, style: styleAfter(line.text, line.style) }]));
  }

  private changed(): void {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }
}

function charsOf(lines: readonly Line[]): number {
  let chars = 0;
  for (const line of lines) chars += line.text.length;
  return chars;
}

/** The text of a line as it is searched and copied. */
export function plainOf(line: Line): string {
  return strip(line.text);
}
