/**
 * A log as the page reads it: first its end, then what comes live, and on demand what stands before or behind the window.
 *
 * One reader belongs to one choice of attempt, task and stream; another choice is another reader. The live part goes on from the last
 * cursor after a break, so no line is missed or doubled.
 */

import { useEffect, useState, useSyncExternalStore } from 'react';

import { api, take } from '@/api/client';
import { live, type LogMessage } from '@/api/live';
import { asProblem } from '@/api/problem';

import { isError } from './errors';
import { linesOf } from './lines';
import { LogWindow, plainOf, type LogPage } from './logWindow';

export interface Choice {
  job: string;
  attempt: number;
  role: string | null;
  index: number | null;
  stream: 'stdout' | 'stderr' | null;
}

const TAIL_LINES = 1_000;
export const SCAN_CHARS_MAX = 256 << 20; // How much of a log is searched for its first error.
const ROWS = 8; // A stored row may be 256 KiB, or a single line.
const ROWS_MAX = 500;
const RETRY_MS = 3_000;
const CHARS_LOW = 128 << 10;
const CHARS_HIGH = 768 << 10;

export type Reading = 'end' | 'start' | 'older' | 'newer' | 'error' | null;

export class LogReader {
  readonly window = new LogWindow();
  reading: Reading = 'end';
  problem: unknown = null;
  /** Why the live part ended, where it did not end with the log. */
  ended: string | null = null;
  /** Somebody looks at the end. */
  isWatched = true;
  isReady = false;
  private stopLive: (() => void) | null = null;
  private isClosed = false;
  private abort = new AbortController();
  private listeners = new Set<() => void>();
  private version = 0;
  private rows = ROWS;
  /** The reading that counts: what an earlier one still brings is of another place in the log. */
  private turn = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly choice: Choice,
    private readonly scanCharsMax = SCAN_CHARS_MAX,
  ) {}

  watch = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    const stop = this.window.watch(this.bump);
    return () => {
      this.listeners.delete(listener);
      stop();
    };
  };

  snapshot = (): number => this.version;

  open(): void {
    void this.toEnd();
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.abort.abort();
    this.unfollow();
  }

  /** Begin anew at the log's end, and follow it. */
  toEnd = async (): Promise<void> => {
    this.isWatched = true;
    await this.run('end', async (isStale) => {
      this.unfollow();
      const page = await this.read({ tail: TAIL_LINES });
      if (isStale()) return;
      this.window.reset(page, null, true);
      this.follow();
    });
  };

  /** Begin anew at the log's beginning. */
  toStart = async (): Promise<void> => {
    await this.run('start', async (isStale) => {
      this.unfollow();
      const page = await this.forward('0-0');
      if (isStale()) return;
      this.isWatched = false;
      this.window.reset(page, '0-0', false);
    });
  };

  older = async (): Promise<void> => {
    if (this.reading || this.window.isAtStart) return;
    await this.run('older', async () => {
      await this.window.readOlder((cursor, rows) => this.read({ cursor, limit: Math.min(ROWS_MAX, rows) }));
      if (!this.window.isAttached) this.unfollow();
    });
  };

  newer = async (): Promise<void> => {
    if (this.reading || this.window.isAttached) return;
    await this.run('newer', async (isStale) => {
      const page = await this.forward(this.window.cursor);
      if (isStale()) return;
      this.window.continue(page);
      if (this.window.isAttached) this.follow();
    });
  };

  /** The id of the first line that tells of an error, with the window around it; null: there is none; undefined: not found in time. */
  firstError = async (): Promise<number | null | undefined> => {
    let found: number | null | undefined = null;
    const inWindow = () => this.window.lines.find((line) => line.missing === null && isError(plainOf(line)))?.id ?? null;
    await this.run('error', async (isStale) => {
      if (this.window.isAtStart) {
        found = inWindow();
        if (found !== null || this.window.isAttached) return;
      }
      let cursor = '0-0';
      let chars = 0;
      const tails = new Map();
      while (!isStale()) {
        const page = await this.forward(cursor);
        if (isStale()) return;
        if (page.items.length === 0) return;
        if (linesOf(page.items, tails, () => 0).some((line) => line.missing === null && isError(plainOf(line)))) {
          this.unfollow();
          this.isWatched = false;
          this.window.reset(page, cursor, false);
          found = inWindow();
          return;
        }
        for (const item of page.items) chars += item.text.length;
        if (chars > this.scanCharsMax) {
          found = undefined;
          return;
        }
        cursor = page.cursor;
      }
    });
    return found;
  };

  setWatched(isWatched: boolean): void {
    this.isWatched = isWatched;
    if (isWatched) this.window.seen();
  }

  private async run(reading: Exclude<Reading, null>, work: (isStale: () => boolean) => Promise<void>): Promise<void> {
    const turn = (this.turn += 1);
    const isStale = () => this.isClosed || turn !== this.turn;
    clearTimeout(this.timer);
    this.reading = reading;
    this.problem = null;
    this.bump();
    try {
      await work(isStale);
      this.isReady = true;
    } catch (error) {
      if (isStale()) return;
      this.problem = error;
      if (reading === 'end' && asProblem(error).retryable) this.timer = setTimeout(() => void this.toEnd(), RETRY_MS);
    } finally {
      if (turn === this.turn) this.reading = null;
      this.bump();
    }
  }

  /** The page behind a cursor: as many rows as make a page of some hundred kilobytes. */
  private async forward(cursor: string): Promise<LogPage> {
    const page = await this.read({ cursor, limit: this.rows });
    let chars = 0;
    for (const item of page.items) chars += item.text.length;
    if (chars > CHARS_HIGH) this.rows = Math.max(1, this.rows >> 1);
    else if (chars < CHARS_LOW && page.items.length === this.rows) this.rows = Math.min(ROWS_MAX, this.rows * 4);
    return page;
  }

  private async read(where: { tail: number } | { cursor: string; limit: number }): Promise<LogPage> {
    const { job, attempt, role, index, stream } = this.choice;
    const query = { attempt, ...where, ...(role === null ? {} : { role }), ...(index === null ? {} : { index }), ...(stream === null ? {} : { stream }) };
    return take(api.GET('/api/v1/jobs/{job}/logs', { params: { path: { job }, query }, signal: this.abort.signal }));
  }

  private follow(): void {
    this.ended = null;
    if (this.window.isComplete || this.stopLive || this.isClosed) return;
    const { job, attempt, role, index, stream } = this.choice;
    this.stopLive = live.logs({
      request: () => ({ job, attempt, cursor: this.window.cursor, ...(role === null ? {} : { role }), ...(index === null ? {} : { index }), ...(stream === null ? {} : { stream }) }),
      onMessages: (messages) => {
        if (this.isClosed || !this.stopLive) return;
        this.window.extend(messages.filter(isPage), this.isWatched);
        if (!this.window.isAttached) this.unfollow();
      },
      onEnd: (code) => {
        this.unfollow();
        if (code !== 'complete') this.ended = code;
        this.bump();
      },
    });
  }

  private unfollow(): void {
    this.stopLive?.();
    this.stopLive = null;
  }

  private bump = (): void => {
    this.version += 1;
    for (const listener of this.listeners) listener();
  };
}

function isPage(message: LogMessage): message is LogMessage & LogPage {
  return Array.isArray(message.items) && typeof message.cursor === 'string';
}

/** The reader of a choice, opened and closed with the component. */
export function useLog(choice: Choice): LogReader {
  const { job, attempt, role, index, stream } = choice;
  const [reader, setReader] = useState(() => new LogReader(choice));
  useEffect(() => {
    const made = new LogReader({ job, attempt, role, index, stream });
    setReader(made);
    made.open();
    return () => made.close();
  }, [job, attempt, role, index, stream]);
  useSyncExternalStore(reader.watch, reader.snapshot);
  return reader;
}
