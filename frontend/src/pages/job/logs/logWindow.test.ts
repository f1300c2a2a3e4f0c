/** The window of lines that is held of a log. */

import { describe, expect, it } from 'vitest';

import type { LogItem } from './lines';
import { earlier, LogWindow, type LogPage } from './logWindow';

/** A log as the server keeps it: rows of streams, read by cursors of row and byte, the newest row growing. */
class Server {
  rows: { role: string; index: number; stream: 'stdout' | 'stderr'; offset: number; text: string }[] = [];
  private sizes = new Map<string, number>();

  print(index: number, text: string, grows = false): void {
    const stream = 'stdout';
    const key = `worker-${index}`;
    const offset = this.sizes.get(key) ?? 0;
    this.sizes.set(key, offset + bytes(text));
    const last = this.rows.at(-1);
    if (grows && last?.index === index) last.text += text;
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
      items.push({ task: { role: stored.role, index: stored.index }, stream: stored.stream, offset: stored.offset + skip, text: stored.text.slice(skip), at: '2026-11-22T00:00:00Z', marker: null, skipped_bytes: 0 });
      last = `${number}-${bytes(stored.text)}`;
    }
    return { items, cursor: last, complete: false };
  }
}

const bytes = (text: string) => text.length;
const shown = (window: LogWindow) => window.lines.map((line) => `${line.index}:${line.text}`);

function numbered(count: number): Server {
  const server = new Server();
  for (let number = 0; number < count; number += 1) server.print(0, `line ${number}\n`);
  return server;
}

describe('the part of a log that a page holds', () => {
  it('goes back by rows, and stops at the beginning', () => {
    expect(earlier('40-7', 10)).toEqual({ cursor: '30-0', isStart: false });
    expect(earlier('8-7', 10)).toEqual({ cursor: '0-0', isStart: true });
    expect(earlier('opaque', 10)).toBeNull();
  });

  it('reads older lines until it has all of them, each once', async () => {
    const server = numbered(3_000);
    const window = new LogWindow();
    window.reset(server.read('2900-0'), null, true);
    expect(window.lines).toHaveLength(101);
    for (let turn = 0; turn < 200 && !window.isAtStart; turn += 1) await window.readOlder((cursor, rows) => Promise.resolve(server.read(cursor, rows)));
    expect(shown(window)).toEqual(Array.from({ length: 3_000 }, (_, number) => `0:line ${number}`));
    const ids = window.lines.map((line) => line.id);
    expect([...ids].sort((a, b) => a - b)).toEqual(ids);
  });

  it('joins a line that pages cut, live and when read again', async () => {
    const server = new Server();
    server.print(0, 'first\nsecond be');
    server.print(1, 'other\n');
    const window = new LogWindow();
    window.reset(server.read('0-0'), '0-0', true);
    expect(shown(window)).toEqual(['0:first', '0:second be', '1:other']);
    server.print(0, 'gins\nthird\n');
    window.extend([server.read(window.cursor)], true);
    expect(shown(window)).toEqual(['0:first', '1:other', '0:second begins', '0:third']);

    const later = new LogWindow();
    later.reset(server.read('3-0'), null, true);
    expect(shown(later)).toEqual(['0:gins', '0:third']);
    while (!later.isAtStart) await later.readOlder((cursor, rows) => Promise.resolve(server.read(cursor, rows)));
    expect(shown(later)).toEqual(['0:first', '1:other', '0:second begins', '0:third']);
  });

  it('goes on inside a row that grew', async () => {
    const server = numbered(40);
    server.print(1, 'a\nb\n');
    const window = new LogWindow();
    window.reset(server.read('41-2'), null, true);
    server.print(1, 'c\nd\n', true);
    window.extend([server.read(window.cursor)], true);
    expect(shown(window)).toEqual(['1:b', '1:c', '1:d']);
    while (!window.isAtStart) await window.readOlder((cursor, rows) => Promise.resolve(server.read(cursor, rows)));
    expect(shown(window).slice(-6)).toEqual(['0:line 38', '0:line 39', '1:a', '1:b', '1:c', '1:d']);
  });

  it('finds older lines of one task among rows of many', async () => {
    const server = new Server();
    for (let number = 0; number < 4_000; number += 1) server.print(number % 97, `${number}\n`);
    const window = new LogWindow();
    const read = (cursor: string, rows: number) => Promise.resolve(server.read(cursor, rows, 5));
    window.reset(server.read('3900-0', 500, 5), null, true);
    for (let turn = 0; turn < 200 && !window.isAtStart; turn += 1) await window.readOlder(read);
    expect(shown(window)).toEqual(server.rows.filter((row) => row.index === 5).map((row) => `5:${row.text.trim()}`));
  });

  it('keeps its bounds while followed: the oldest go', () => {
    const server = new Server();
    const window = new LogWindow(1_000, 1 << 20);
    window.reset(server.read('0-0'), '0-0', true);
    for (let round = 0; round < 100; round += 1) {
      for (let number = 0; number < 100; number += 1) server.print(0, `${round * 100 + number}\n`);
      window.extend([server.read(window.cursor)], true);
      expect(window.lines.length).toBeLessThanOrEqual(1_000);
    }
    expect(window.lines.at(-1)?.text).toBe('9999');
    expect(window.lines[0]?.text).toBe('9000');
    expect(window.isAtStart).toBe(false);
  });

  it('lets go of the end while somebody reads further up, counts what is new, and finds the way back', async () => {
    const server = numbered(500);
    const window = new LogWindow(800, 1 << 20);
    window.reset(server.read('0-0'), '0-0', true);
    for (let round = 0; round < 10; round += 1) {
      for (let number = 0; number < 100; number += 1) server.print(0, `new ${round * 100 + number}\n`);
      window.extend([server.read(window.cursor)], false);
    }
    expect(window.isAttached).toBe(false);
    expect(window.lines[0]?.text).toBe('line 0');
    expect(window.unseen).toBe(300);
    for (let turn = 0; turn < 10 && !window.isAttached; turn += 1) window.continue(server.read(window.cursor, 200));
    expect(window.isAttached).toBe(true);
    expect(window.lines.at(-1)?.text).toBe('new 999');
    const texts = window.lines.map((line) => line.text);
    expect(new Set(texts).size).toBe(texts.length);
    await window.readOlder((cursor, rows) => Promise.resolve(server.read(cursor, rows)));
    expect(window.lines.length).toBeLessThanOrEqual(1_000);
  });

  it('drops the newest when older ones fill it, and reads them again', async () => {
    const server = numbered(5_000);
    const window = new LogWindow(1_000, 1 << 20);
    const read = (cursor: string, rows: number) => Promise.resolve(server.read(cursor, rows));
    window.reset(server.read('4501-0'), null, true);
    for (let turn = 0; turn < 300 && !window.isAtStart; turn += 1) await window.readOlder(read);
    expect(window.isAtStart).toBe(true);
    expect(window.lines.length).toBeLessThanOrEqual(1_000);
    expect(window.lines[0]?.text).toBe('line 0');
    for (let turn = 0; turn < 80 && !window.isAttached; turn += 1) window.continue(server.read(window.cursor));
    expect(window.lines.at(-1)?.text).toBe('line 4999');
    const numbers = window.lines.map((line) => Number(line.text.slice(5)));
    expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, index) => (numbers[0] ?? 0) + index));
  });

  it('shows the log whole and in order, whatever it is read by', async () => {
    let seed = 11;
    const random = (below: number) => Math.floor(((seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648) * below);
    for (let round = 0; round < 40; round += 1) {
      const server = new Server();
      let printed = 0;
      const print = (count: number) => {
        for (let number = 0; number < count; number += 1) server.print(random(3), Array.from({ length: random(4) + 1 }, () => `n${printed++}${random(3) === 0 ? '' : '\n'}`).join(''), random(3) === 0);
      };
      print(200 + random(200));
      const window = new LogWindow(120, 1 << 20);
      const read = (cursor: string, rows: number) => Promise.resolve(server.read(cursor, rows));
      window.reset(server.read(`${server.rows.length - 20}-0`, 60), null, true);
      for (let step = 0; step < 60; step += 1) {
        const act = random(4);
        if (act === 0) print(random(10));
        if (act === 1 && window.isAttached) window.extend([server.read(window.cursor, 60)], random(2) === 0);
        if (act === 2) await window.readOlder(read);
        if (act === 3 && !window.isAttached) window.continue(server.read(window.cursor, 60));
      }
      // Every stream's lines, put together, are a part of what that stream printed.
      for (const index of [0, 1, 2]) {
        const whole = server.rows.filter((row) => row.index === index).map((row) => row.text).join('');
        const held = window.lines.filter((line) => line.index === index).map((line) => line.text);
        const inner = held.slice(1).join('\n');
        expect(whole.includes(inner), `round ${round}, task ${index}: ${inner}`).toBe(true);
      }
    }
  });
});
