/** The window of lines that is held of a log. */

import { describe, expect, it } from 'vitest';

import { numbered, StoredLog as Server } from '@/testing/log';

import { earlier, LogWindow } from './logWindow';

const shown = (window: LogWindow) => window.lines.map((line) => `${line.index}:${line.text}`);

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

describe('colours in the window', () => {
  const RED = '\x1b[31m';
  const OFF = '\x1b[0m';
  const inks = (window: LogWindow) => window.lines.map((line) => line.style.ink);
  const reading = (server: Server) => (cursor: string, rows: number) => Promise.resolve(server.read(cursor, rows));

  /** Forty lines, of which 10 to 29 are red by one sign at the beginning and one at the end. */
  function painted(): Server {
    const server = new Server();
    for (let number = 0; number < 40; number += 1) server.print(0, `${number === 10 ? RED : ''}line ${number}${number === 29 ? OFF : ''}\n`);
    return server;
  }
  const asPainted = Array.from({ length: 40 }, (_, number) => (number > 10 && number < 30 ? 1 : null));

  it('are those that the log had reached, also for lines that were read before their sign was', async () => {
    const server = painted();
    const window = new LogWindow();
    window.reset(server.read('25-0'), null, true);
    expect(inks(window).every((ink) => ink === null)).toBe(true); // The sign stands further up, and is not read yet.
    while (!window.isAtStart) await window.readOlder(reading(server));
    expect(inks(window)).toEqual(asPainted);
  });

  it('reach a line that is printed after they were found out', async () => {
    const server = new Server();
    server.print(0, `${RED}one\n`);
    for (let number = 0; number < 8; number += 1) server.print(0, `line ${number}\n`);
    const window = new LogWindow();
    window.reset(server.read('6-0'), null, true);
    while (!window.isAtStart) await window.readOlder(reading(server));
    server.print(0, 'the last\n');
    window.extend([server.read(window.cursor)], true);
    expect(window.lines.at(-1)).toMatchObject({ text: 'the last', style: { ink: 1 } });
  });

  it.each([6, 8, 10, 12, 14, 20, 28])('go on where the newest were dropped and are read again, in a window of %i lines', async (lines) => {
    const server = painted();
    const window = new LogWindow(lines, 1 << 20);
    window.reset(server.read('30-0'), null, true);
    while (!window.isAtStart) await window.readOlder(reading(server));
    expect(window.isAttached).toBe(false);
    while (!window.isAttached) window.continue(server.read(window.cursor, 5));
    const shownFrom = Number(window.lines[0]?.text.slice(5));
    expect(inks(window)).toEqual(asPainted.slice(shownFrom));
  });

  it('of one stream leave the other as it is', async () => {
    const server = new Server();
    server.print(0, `${RED}bad\n`, false, 'stderr');
    server.print(0, 'good\n');
    server.print(0, 'worse\n', false, 'stderr');
    server.print(0, 'better\n');
    const window = new LogWindow();
    window.reset(server.read('3-0'), null, true);
    while (!window.isAtStart) await window.readOlder(reading(server));
    expect(window.lines.map((line) => [line.text.replace(RED, ''), line.stream, line.style.ink])).toEqual([['bad', 'stderr', null], ['good', 'stdout', null], ['worse', 'stderr', 1], ['better', 'stdout', null]]);
  });
});

describe('what is missing, and how the window counts', () => {
  const item = (text: string, offset: number, marker: string | null = null) => ({ task: { role: 'worker', index: 0 }, stream: 'stdout' as const, offset, text, at: 'T', marker, skipped_bytes: marker ? 4_096 : 0 });
  const page = (cursor: string, ...items: ReturnType<typeof item>[]) => ({ items, cursor, complete: false });

  it('a gap is a line of its own, and ends the line before it', () => {
    const window = new LogWindow();
    window.reset(page('3-9', item('half a li', 0), item('', 9, 'The quota of the log is used up.'), item('new line\n', 4_105)), '0-0', true);
    expect(window.lines.map((line) => [line.text, line.missing, line.isOpen])).toEqual([['half a li', null, false], ['The quota of the log is used up.', 4_096, false], ['new line', null, false]]);
  });

  it('is complete with the last page, and not any more once that page was dropped', async () => {
    const server = numbered(60);
    server.isComplete = true;
    const window = new LogWindow(30, 1 << 20);
    window.reset(server.read('41-0'), null, true);
    expect(window.isComplete).toBe(true);
    while (!window.isAtStart) await window.readOlder((cursor, rows) => Promise.resolve(server.read(cursor, rows)));
    expect([window.isAttached, window.isComplete]).toEqual([false, false]);
  });

  it('forgets how many lines are new once they were seen, and tells it once', () => {
    const server = numbered(3);
    const window = new LogWindow();
    window.reset(server.read('0-0'), '0-0', true);
    server.print(0, 'a\nb\n');
    window.extend([server.read(window.cursor)], false);
    expect(window.unseen).toBe(2);
    let told = 0;
    const stop = window.watch(() => (told += 1));
    window.seen();
    window.seen();
    stop();
    server.print(0, 'c\n');
    window.extend([server.read(window.cursor)], true);
    expect([window.unseen, told]).toEqual([0, 1]);
  });

  it('takes no live page while it has let go of the end: lines would be left out', () => {
    const server = numbered(10);
    const window = new LogWindow();
    window.reset(server.read('0-0', 5), '0-0', false);
    window.extend([server.read('8-0')], true);
    expect(window.lines.map((line) => line.text)).toEqual(['line 0', 'line 1', 'line 2', 'line 3', 'line 4']);
  });

  it('bounds its characters, too: few long lines drop as many short ones do', () => {
    const server = new Server();
    const window = new LogWindow(1_000, 10_000);
    window.reset(server.read('0-0'), '0-0', true);
    for (let round = 0; round < 20; round += 1) {
      server.print(0, `${'x'.repeat(2_000)}${round}\n`);
      window.extend([server.read(window.cursor)], true);
    }
    expect(window.lines.map((line) => line.text.slice(2_000))).toEqual(['16', '17', '18', '19']);
  });

  it('leaves what it holds alone when it was begun anew while older lines were on their way', async () => {
    const server = numbered(100);
    const window = new LogWindow();
    window.reset(server.read('80-0'), null, true);
    const came = await window.readOlder(async (cursor, rows) => {
      const late = server.read(cursor, rows);
      window.reset(server.read('95-0'), null, true);
      return Promise.resolve(late);
    });
    expect(came).toBe(0);
    expect(window.lines[0]?.text).toBe('line 94');
  });

  it('stops looking further up where cursors say nothing of what lies before', async () => {
    const server = numbered(5);
    const window = new LogWindow();
    window.reset({ ...server.read('3-0'), cursor: 'opaque' }, null, true);
    expect(await window.readOlder(() => Promise.reject(new Error('must not be read')))).toBe(0);
    expect(window.isAtStart).toBe(true);
  });
});
