/** A log as the server keeps it, and as its API gives it: rows of streams, read by cursors of row and byte, the newest row growing. */

import type { LogItem } from '@/pages/job/logs/lines';
import type { LogPage } from '@/pages/job/logs/logWindow';

interface Row {
  role: string;
  index: number;
  stream: 'stdout' | 'stderr';
  offset: number;
  text: string;
}

const bytes = (text: string) => new TextEncoder().encode(text).length;

export class StoredLog {
  rows: Row[] = [];
  isComplete = false;
  private sizes = new Map<string, number>();

  /** One row more, or more of the newest one where it `grows`. */
  print(index: number, text: string, grows = false, stream: Row['stream'] = 'stdout'): void {
    const key = `worker-${index}-${stream}`;
    const offset = this.sizes.get(key) ?? 0;
    this.sizes.set(key, offset + bytes(text));
    const last = this.rows.at(-1);
    if (grows && last?.index === index && last.stream === stream) last.text += text;
    else this.rows.push({ role: 'worker', index, stream, offset, text });
  }

  read(cursor: string, limit = 500, wanted: number | null = null): LogPage {
    const [row = 0, position = 0] = cursor.split('-').map(Number);
    const items: LogItem[] = [];
    let last = cursor;
    for (let number = Math.max(1, row); number <= this.rows.length && items.length < limit; number += 1) {
      const stored = this.rows[number - 1];
      if (!stored || (wanted !== null && stored.index !== wanted)) continue;
      const skip = number === row ? position : 0;
      if (skip >= bytes(stored.text)) continue;
      const text = new TextDecoder().decode(new TextEncoder().encode(stored.text).subarray(skip));
      items.push({ task: { role: stored.role, index: stored.index }, stream: stored.stream, offset: stored.offset + skip, text, at: '2026-11-22T00:00:00Z', marker: null, skipped_bytes: 0 });
      last = `${number}-${bytes(stored.text)}`;
    }
    return { items, cursor: last, complete: this.isComplete && this.isEnd(last) };
  }

  /** The last rows that hold so many lines. */
  tail(lines: number): LogPage {
    let from = this.rows.length + 1;
    for (let count = 0; from > 1 && count < lines; from -= 1) count += this.rows[from - 2]?.text.split('\n').length ?? 0;
    return this.read(`${from}-0`);
  }

  /** Whether nothing stands behind a cursor. */
  private isEnd(cursor: string): boolean {
    const [row = 0, position = 0] = cursor.split('-').map(Number);
    return row >= this.rows.length && position >= bytes(this.rows.at(-1)?.text ?? '');
  }
}

/** One line in each row: `line 0`, `line 1` ... */
export function numbered(count: number): StoredLog {
  const log = new StoredLog();
  for (let number = 0; number < count; number += 1) log.print(0, `line ${number}\n`);
  return log;
}
