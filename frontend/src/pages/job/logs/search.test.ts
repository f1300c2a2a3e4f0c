/** Which lines hold a word, while lines come, go and move. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { numbered, StoredLog } from '@/testing/log';

import type { Line } from './lines';
import { LogWindow } from './logWindow';
import { indexOfId, MATCHES_MAX, placesOf, Search } from './search';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Look through the window as the page does after each of its changes; slices in between included. */
function look(search: Search, window: LogWindow): void {
  search.look(window.lines);
  vi.runAllTimers();
}

/** The texts of the lines found; a match whose line is gone would be undefined. */
const found = (search: Search, window: LogWindow) => search.matches.map((id) => window.lines[indexOfId(window.lines, id)]?.text);
const readingOf = (log: StoredLog) => (cursor: string, rows: number) => Promise.resolve(log.read(cursor, rows));

describe('a search in a log', () => {
  it('finds lines whatever the case, and not the signs of their colours', () => {
    const log = new StoredLog();
    log.print(0, 'Loss is 1\n\x1b[31mloss\x1b[0m is 2\nno\nlo\x1b[1mss is 3\n');
    const window = new LogWindow();
    window.reset(log.read('0-0'), '0-0', true);
    const search = new Search('LOSS', () => undefined);
    look(search, window);
    expect(search.matches).toHaveLength(3);
    look(new Search('31m', () => undefined), window);
    const signs = new Search('31m', () => undefined);
    look(signs, window);
    expect(signs.matches).toEqual([]);
  });

  it('goes on with what comes, at both ends, in the order of the log', async () => {
    const log = numbered(300);
    const window = new LogWindow();
    window.reset(log.read('200-0'), null, true);
    const search = new Search('7', () => undefined);
    look(search, window);
    log.print(0, 'line 1007\n');
    window.extend([log.read(window.cursor)], true);
    look(search, window);
    await window.readOlder(readingOf(log));
    look(search, window);
    expect(found(search, window)).toEqual(window.lines.map((line) => line.text).filter((text) => text.includes('7')));
    expect(found(search, window).at(-1)).toBe('line 1007');
  });

  it('looks in slices, tells after each, and says when it is done', () => {
    const log = numbered(9_500);
    const window = new LogWindow();
    window.reset(log.read('0-0', 20_000), '0-0', true);
    const counts: number[] = [];
    const search = new Search('line', () => counts.push(search.matches.length));
    search.look(window.lines);
    expect([search.matches.length, search.isDone]).toEqual([4_000, false]);
    vi.runAllTimers();
    expect(counts).toEqual([4_000, 8_000, 9_500]);
    expect(search.isDone).toBe(true);
  });

  it('stops where it is when it is ended', () => {
    const log = numbered(9_000);
    const window = new LogWindow();
    window.reset(log.read('0-0', 20_000), '0-0', true);
    const search = new Search('line', () => undefined);
    search.look(window.lines);
    search.stop();
    vi.runAllTimers();
    expect(search.matches).toHaveLength(4_000);
  });

  it('counts at most so many, and keeps the first of them', () => {
    const log = numbered(MATCHES_MAX + 500);
    const window = new LogWindow();
    window.reset(log.read('0-0', 20_000), '0-0', true);
    const search = new Search('line', () => undefined);
    look(search, window);
    expect(search.matches).toHaveLength(MATCHES_MAX);
    expect(found(search, window)[0]).toBe('line 0');
  });

  it('finds a line once though it grows and moves to a newer page', () => {
    const log = new StoredLog();
    log.print(0, 'epoch 1');
    const window = new LogWindow();
    window.reset(log.read('0-0'), '0-0', true);
    const search = new Search('epoch', () => undefined);
    look(search, window);
    log.print(1, 'other\n');
    log.print(0, ' done\n');
    window.extend([log.read(window.cursor)], true);
    look(search, window);
    expect(found(search, window)).toEqual(['epoch 1 done']);
  });

  it('forgets lines that left the window at its beginning', () => {
    const log = numbered(50);
    const window = new LogWindow(60, 1 << 20);
    window.reset(log.read('0-0'), '0-0', true);
    const search = new Search('line', () => undefined);
    look(search, window);
    for (let number = 50; number < 200; number += 10) {
      for (let more = 0; more < 10; more += 1) log.print(0, `line ${number + more}\n`);
      window.extend([log.read(window.cursor)], true);
      look(search, window);
    }
    expect(search.matches).toHaveLength(window.lines.length);
    expect(found(search, window)[0]).toBe(window.lines[0]?.text);
  });

  it('forgets lines that left it at its end, and finds them once when they are read again', async () => {
    const log = numbered(200);
    const window = new LogWindow(60, 1 << 20);
    window.reset(log.read('161-0'), null, true);
    const search = new Search('line', () => undefined);
    look(search, window);
    while (!window.isAtStart) {
      await window.readOlder(readingOf(log));
      look(search, window);
      expect(search.matches).toHaveLength(window.lines.length);
    }
    expect(window.isAttached).toBe(false);
    while (!window.isAttached) {
      window.continue(log.read(window.cursor, 10));
      look(search, window);
    }
    expect(found(search, window)).toEqual(window.lines.map((line) => line.text));
  });

  it('begins anew where the window was filled from another place', () => {
    const log = numbered(500);
    const window = new LogWindow();
    window.reset(log.read('450-0'), null, true);
    const search = new Search('9', () => undefined);
    look(search, window);
    window.reset(log.read('0-0', 20), '0-0', false);
    look(search, window);
    expect(found(search, window)).toEqual(['line 9', 'line 19']);
  });
});

describe('places in a line', () => {
  it('are found from left to right, without overlap', () => {
    expect(placesOf('aaaa Aa', 'aa')).toEqual([[0, 2], [2, 4], [5, 7]]);
    expect(placesOf('abc', '')).toEqual([]);
    expect(placesOf('abc', 'x')).toEqual([]);
  });
  it('are bounded, and left out where letters change their length', () => {
    expect(placesOf('x'.repeat(1_000), 'x')).toHaveLength(200);
    expect(placesOf('İstanbul', 'ist')).toEqual([]); // Its small form is two letters: every place behind it would be off.
  });
});

describe('a line by its id', () => {
  const lines = [-3, -1, 2, 8].map((id) => ({ id }) as Line);
  it('is found where ids have gaps, and is -1 where there is none', () => {
    expect([-3, -1, 2, 8].map((id) => indexOfId(lines, id))).toEqual([0, 1, 2, 3]);
    expect([-4, 0, 9].map((id) => indexOfId(lines, id))).toEqual([-1, -1, -1]);
    expect(indexOfId([], 1)).toBe(-1);
  });
});
