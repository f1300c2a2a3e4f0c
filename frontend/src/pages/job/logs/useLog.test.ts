/** Reading a log: its end and what comes live, its beginning, older and newer pages, and the first error; breaks and slow answers between. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { live } from '@/api/live';
import { drawHook } from '@/testing/hooks';
import { numbered, StoredLog } from '@/testing/log';
import { gate, PlayedServer, refusal, settle, type Call } from '@/testing/server';

import { LogReader, useLog, type Choice } from './useLog';

const CHOICE: Choice = { job: 'j1', attempt: 2, role: null, index: null, stream: null };
const PATH = '/api/v1/jobs/j1/logs';

/** The live part, with the test at its other end. */
class PlayedFeed {
  followers: { request: () => Record<string, unknown>; onMessages: (messages: Record<string, unknown>[]) => void; onEnd?: (code: string) => void; isStopped: boolean }[] = [];

  start(): this {
    vi.spyOn(live, 'logs').mockImplementation((handlers) => {
      const follower = { ...handlers, isStopped: false };
      this.followers.push(follower);
      return () => {
        follower.isStopped = true;
      };
    });
    return this;
  }
  get open() {
    return this.followers.filter((follower) => !follower.isStopped);
  }
  /** Send what the log holds behind the position that the reader names. */
  send(log: StoredLog): void {
    for (const follower of this.open) follower.onMessages([{ type: 'log', ...log.read(String(follower.request().cursor)) }]);
  }
}

let log: StoredLog;
let server: PlayedServer;
let feed: PlayedFeed;
let reader: LogReader;

function answer({ query }: Call): unknown {
  const tail = query.get('tail');
  return tail === null ? log.read(query.get('cursor') ?? '', Number(query.get('limit'))) : log.tail(Number(tail));
}

const texts = () => reader.window.lines.map((line) => line.text);
/** Whether the lines are those of `numbered`, each once and in order. */
const isUnbroken = () => texts().every((text, at, all) => at === 0 || Number(text.slice(5)) === Number(all[at - 1]?.slice(5)) + 1);

beforeEach(() => {
  log = numbered(3_000);
  server = new PlayedServer().start().on('GET', PATH, answer);
  feed = new PlayedFeed().start();
  reader = new LogReader(CHOICE);
});
afterEach(() => {
  reader.close();
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe('the end of a log', () => {
  it('is read first, and followed from its last line on', async () => {
    expect(reader.reading).toBe('end');
    await reader.toEnd();
    expect([reader.isReady, reader.reading, reader.problem]).toEqual([true, null, null]);
    expect(texts().at(-1)).toBe('line 2999');
    expect(server.calls[0]?.query.toString()).toBe('attempt=2&tail=1000');
    expect(feed.open[0]?.request()).toEqual({ job: 'j1', attempt: 2, cursor: '3000-10' });
    log.print(0, 'line 3000\n');
    feed.send(log);
    expect(texts().at(-1)).toBe('line 3000');
    expect(isUnbroken()).toBe(true);
  });

  it('is asked for of one task and stream where those were chosen, by both ways', async () => {
    reader = new LogReader({ ...CHOICE, role: 'worker', index: 0, stream: 'stderr' });
    await reader.toEnd();
    expect(Object.fromEntries(server.calls[0]?.query ?? [])).toMatchObject({ role: 'worker', index: '0', stream: 'stderr' });
    expect(feed.open[0]?.request()).toMatchObject({ role: 'worker', index: 0, stream: 'stderr' });
  });

  it('goes on after a break behind the last line that came, so that none comes twice', async () => {
    await reader.toEnd();
    log.print(0, 'line 3000\n');
    feed.send(log);
    log.print(0, 'line 3001\n');
    feed.send(log); // A new connection asks for its position anew.
    expect(texts().slice(-3)).toEqual(['line 2999', 'line 3000', 'line 3001']);
  });

  it('is not followed where the log has its last line already', async () => {
    log.isComplete = true;
    await reader.toEnd();
    expect(reader.window.isComplete).toBe(true);
    expect(feed.followers).toEqual([]);
  });

  it('says why the live part ended before the log did, and nothing where the log is whole', async () => {
    await reader.toEnd();
    feed.open[0]?.onEnd?.('forbidden');
    expect([reader.ended, feed.open.length]).toEqual(['forbidden', 0]);
    await reader.toEnd();
    expect(reader.ended).toBeNull();
    feed.open[0]?.onEnd?.('complete');
    expect([reader.ended, feed.open.length]).toEqual([null, 0]);
  });

  it('is asked for again where the platform could not be reached, and not where it refused', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    server.on('GET', PATH, () => {
      throw new TypeError('network');
    });
    await reader.toEnd();
    expect(reader.problem).toMatchObject({ code: 'offline' });
    server.on('GET', PATH, answer);
    vi.advanceTimersByTime(3_000);
    await settle();
    expect([reader.problem, texts().at(-1)]).toEqual([null, 'line 2999']);

    server.on('GET', PATH, refusal(403, { code: 'forbidden' }));
    await reader.toEnd();
    const asked = server.calls.length;
    vi.advanceTimersByTime(60_000);
    await settle();
    expect(reader.problem).toMatchObject({ code: 'forbidden' });
    expect(server.calls).toHaveLength(asked);
  });

  it('lets go of the live part once the window is full and nobody looks at the end', async () => {
    await reader.toEnd();
    reader.setWatched(false);
    log.print(0, `${'x'.repeat(9 << 20)}\n`);
    feed.send(log);
    log.print(0, 'line 3001\n');
    feed.send(log);
    expect(reader.window.isAttached).toBe(false);
    expect(feed.open).toEqual([]);
  });

  it('counts what is new while nobody looks, until somebody does', async () => {
    await reader.toEnd();
    reader.setWatched(false);
    log.print(0, 'a\nb\n');
    feed.send(log);
    expect(reader.window.unseen).toBe(2);
    reader.setWatched(true);
    expect(reader.window.unseen).toBe(0);
  });
});

describe('other places of a log', () => {
  it('older lines come before what is there, each once', async () => {
    await reader.toEnd();
    const had = texts().length;
    await reader.older();
    await reader.older();
    expect(texts().length).toBeGreaterThan(had);
    expect(isUnbroken()).toBe(true);
    expect(texts().at(-1)).toBe('line 2999');
    expect(feed.open).toHaveLength(1);
  });

  it('are read one at a time: a second wish for older lines waits for none', async () => {
    await reader.toEnd();
    const asked = server.calls.length;
    const held = gate();
    server.on('GET', PATH, async (call: Call) => (await held.wait, answer(call)));
    const first = reader.older();
    await reader.older();
    await settle();
    expect(server.calls.length - asked).toBe(1);
    held.open();
    await first;
    expect(isUnbroken()).toBe(true);
  });

  it('the beginning is read without following, and the way down leads back to the live end', async () => {
    await reader.toEnd();
    await reader.toStart();
    expect(texts()[0]).toBe('line 0');
    expect([feed.open.length, reader.isWatched, reader.window.isAttached]).toEqual([0, false, false]);
    for (let turn = 0; turn < 500 && !reader.window.isAttached; turn += 1) await reader.newer();
    expect([texts()[0], texts().at(-1)]).toEqual(['line 0', 'line 2999']);
    expect(isUnbroken()).toBe(true);
    expect(feed.open).toHaveLength(1);
    const asked = server.calls.length;
    await reader.newer(); // Nothing lies behind the live end.
    expect(server.calls).toHaveLength(asked);
  });

  it('pages grow while rows are small, and shrink while they are large', async () => {
    await reader.toStart();
    for (let turn = 0; turn < 4; turn += 1) await reader.newer();
    const limits = server.calls.map((call) => Number(call.query.get('limit')));
    expect(limits).toEqual([8, 32, 128, 500, 500]);

    log = new StoredLog();
    for (let row = 0; row < 40; row += 1) log.print(0, `${'x'.repeat(256 << 10)}\n`);
    server.calls = [];
    reader = new LogReader(CHOICE);
    await reader.toStart();
    for (let turn = 0; turn < 3; turn += 1) await reader.newer();
    expect(server.calls.map((call) => Number(call.query.get('limit')))).toEqual([8, 4, 2, 2]);
  });

  it('a page that was refused is a problem, and what is shown stays', async () => {
    await reader.toEnd();
    server.on('GET', PATH, refusal(503, { code: 'overloaded' }));
    await reader.older();
    expect(reader.problem).toMatchObject({ code: 'overloaded' });
    expect([reader.reading, texts().at(-1), feed.open.length]).toEqual([null, 'line 2999', 1]);
  });
});

describe('the first error', () => {
  it('is found in the window where that holds the log from its beginning', async () => {
    log = numbered(20);
    log.print(0, 'Traceback (most recent call last):\n');
    log.print(0, 'ValueError: bad\n');
    await reader.toStart();
    await reader.newer();
    const found = await reader.firstError();
    expect(reader.window.lines.find((line) => line.id === found)?.text).toBe('Traceback (most recent call last):');
  });

  it('is looked for from the beginning, with the window then around it', async () => {
    log = numbered(2_000);
    log.rows[200] = { role: 'worker', index: 0, stream: 'stdout', offset: log.rows[200]?.offset ?? 0, text: 'ERROR 200\n' };
    await reader.toEnd();
    const found = await reader.firstError();
    expect(reader.window.lines.find((line) => line.id === found)?.text).toBe('ERROR 200');
    expect([feed.open.length, reader.isWatched, reader.window.isAttached]).toEqual([0, false, false]);
  });

  it('is null where there is none, and the end is followed as before', async () => {
    await reader.toEnd();
    expect(await reader.firstError()).toBeNull();
    expect(feed.open).toHaveLength(1);
    expect(texts().at(-1)).toBe('line 2999');
  });

  it('is undefined where too much lies before it', async () => {
    reader = new LogReader(CHOICE, 5_000);
    await reader.toEnd();
    expect(await reader.firstError()).toBeUndefined();
    expect(texts().at(-1)).toBe('line 2999');
  });
});

describe('a slow answer', () => {
  /** Hold back the next answer; the rest come at once. */
  function slow(): { open: (value: void) => void } {
    const held = gate();
    let isFirst = true;
    server.on('GET', PATH, async (call: Call) => {
      const page = answer(call);
      if (isFirst) {
        isFirst = false;
        await held.wait;
      }
      return page;
    });
    return held;
  }

  it('to a wish for newer lines does not get behind the end that was asked for meanwhile', async () => {
    await reader.toStart();
    const held = slow();
    const late = reader.newer();
    await settle();
    await reader.toEnd();
    held.open();
    await late;
    expect(texts().at(-1)).toBe('line 2999');
    expect(isUnbroken()).toBe(true);
    log.print(0, 'line 3000\n');
    feed.send(log);
    expect(isUnbroken()).toBe(true);
  });

  it('to a wish for the beginning does not take the place of the end that was asked for meanwhile', async () => {
    await reader.toEnd();
    const held = slow();
    const late = reader.toStart();
    await settle();
    await reader.toEnd();
    held.open();
    await late;
    expect(texts().at(-1)).toBe('line 2999');
    expect([feed.open.length, reader.isWatched]).toEqual([1, true]);
  });

  it('of an earlier reading does not say that the later one is over', async () => {
    await reader.toEnd();
    const held = slow();
    const early = reader.older();
    await settle();
    const second = gate();
    const start = log.read('0-0', 8);
    server.on('GET', PATH, async (call: Call) => (call.query.get('cursor') === '0-0' ? (await second.wait, start) : answer(call)));
    const late = reader.toStart();
    held.open();
    await early;
    expect(reader.reading).toBe('start');
    second.open();
    await late;
    expect([reader.reading, texts()[0]]).toEqual([null, 'line 0']);
  });

  it('that fails late says nothing of the reading that followed it', async () => {
    await reader.toStart();
    const held = gate();
    let isFirst = true;
    server.on('GET', PATH, async (call: Call) => {
      if (!isFirst) return answer(call);
      isFirst = false;
      await held.wait;
      return refusal(500);
    });
    const late = reader.newer();
    await settle();
    await reader.toEnd();
    held.open();
    await late;
    expect(reader.problem).toBeNull();
  });

  it('ends the search for an error when another place was asked for', async () => {
    await reader.toEnd();
    const held = slow();
    const search = reader.firstError();
    await settle();
    await reader.toEnd();
    held.open();
    await search;
    expect(texts().at(-1)).toBe('line 2999');
    expect(server.calls.filter((call) => call.query.has('cursor'))).toHaveLength(1);
  });

  it('changes nothing once the page was left', async () => {
    const held = slow();
    const late = reader.toEnd();
    await settle();
    reader.close();
    held.open();
    await late;
    expect(texts()).toEqual([]);
    expect([reader.problem, feed.followers]).toEqual([null, []]);
  });
});

describe('the reader of a page', () => {
  it('is another for another choice, and the one before is closed', async () => {
    log = numbered(3);
    const drawn = await drawHook((choice: Choice) => useLog(choice), CHOICE);
    const first = drawn.now;
    expect(first.window.lines).toHaveLength(3);
    await drawn.again({ ...CHOICE, role: 'worker', index: 0 });
    expect(drawn.now).not.toBe(first);
    expect(feed.followers.map((follower) => follower.isStopped)).toEqual([true, false]);
    await drawn.again({ ...CHOICE, role: 'worker', index: 0 });
    expect(feed.followers).toHaveLength(2);
    await drawn.gone();
    expect(feed.open).toEqual([]);
  });

  it('draws the page again when lines come', async () => {
    log = numbered(3);
    const drawn = await drawHook(() => useLog(CHOICE).window.lines.length, undefined);
    await drawn.act(() => {
      log.print(0, 'line 3\n');
      feed.send(log);
    });
    expect(drawn.now).toBe(4);
    await drawn.gone();
  });
});
