/** What the live connection tells its subscribers, and in which order; the socket is a double whose other end the test plays. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { PlayedSocket } from '@/testing/socket';

import { LiveConnection } from './live';

const newest = () => PlayedSocket.newest;

beforeEach(() => {
  vi.useFakeTimers();
  PlayedSocket.start();
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe('the live connection', () => {
  it('tells the last lines of a log before its end, though both come within one frame', () => {
    const connection = new LiveConnection(() => 'ws://there/');
    const told: unknown[] = [];
    connection.logs({ request: () => ({ job: 'j' }), onMessages: (messages) => told.push(...messages.map((one) => one.text)), onEnd: (code) => told.push(code) });
    newest().accept();
    newest().say({ type: 'log', id: 's1', text: 'line-119' });
    newest().say({ type: 'log', id: 's1', text: 'line-120' });
    newest().say({ type: 'ended', id: 's1', code: 'complete' });
    vi.advanceTimersByTime(1_000);
    expect(told).toEqual(['line-119', 'line-120', 'complete']);
  });

  it('goes on behind what came before a break', () => {
    const connection = new LiveConnection(() => 'ws://there/');
    let cursor = '0-0';
    connection.logs({ request: () => ({ cursor }), onMessages: (messages) => (cursor = String(messages.at(-1)?.cursor)) });
    connection.events({ job: 'j' }, { onEvents: () => undefined });
    newest().accept();
    newest().say({ type: 'subscribed', id: 's2', seq: 4 });
    newest().say({ type: 'log', id: 's1', cursor: '7-0' });
    newest().say({ type: 'event', id: 's2', event: { seq: 9 } });
    newest().drop();
    vi.advanceTimersByTime(1_000);
    newest().accept();
    expect(PlayedSocket.made).toHaveLength(2);
    expect(newest().sent).toEqual([
      { subscribe_logs: { cursor: '7-0' }, id: 's1' },
      { subscribe: { job: 'j' }, id: 's2', after: 9 },
    ]);
  });

  it('says once from when on events come, and not again after a break', () => {
    const connection = new LiveConnection(() => 'ws://there/');
    const onBegin = vi.fn();
    connection.events({ user: 'me' }, { onEvents: () => undefined, onBegin });
    newest().accept();
    expect(onBegin).not.toHaveBeenCalled();
    newest().say({ type: 'subscribed', id: 's1', seq: 4 });
    newest().drop();
    vi.advanceTimersByTime(1_000);
    newest().accept();
    newest().say({ type: 'subscribed', id: 's1', seq: 4 });
    expect(onBegin).toHaveBeenCalledOnce();
  });

  it('does not come back once signed out', () => {
    const connection = new LiveConnection(() => 'ws://there/');
    connection.onSignedOut = vi.fn();
    connection.events({ user: 'me' }, { onEvents: () => undefined });
    newest().accept();
    newest().drop(4401);
    vi.advanceTimersByTime(60_000);
    expect(PlayedSocket.made).toHaveLength(1);
    expect(connection.onSignedOut).toHaveBeenCalledOnce();
  });
});

describe('a connection that breaks', () => {
  const follow = () => {
    const connection = new LiveConnection(() => 'ws://there/');
    const seen: number[] = [];
    const onGap = vi.fn();
    const stop = connection.events({ user: 'me' }, { onEvents: (events) => seen.push(...events.map((event) => event.seq)), onGap });
    return { connection, seen, onGap, stop };
  };
  const event = (seq: number, id = 's1') => newest().say({ type: 'event', id, event: { seq, kind: 'job.running' } });
  const frame = () => vi.advanceTimersByTime(20);

  beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0.5)); // The middle of the spread: waits are as they stand in the list.
  afterEach(() => vi.restoreAllMocks());

  it('is tried again after longer and longer waits, and after short ones again once it was open', () => {
    follow();
    for (const wait of [300, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000]) {
      const made = PlayedSocket.made.length;
      newest().drop();
      vi.advanceTimersByTime(wait - 1);
      expect(PlayedSocket.made).toHaveLength(made);
      vi.advanceTimersByTime(1);
      expect(PlayedSocket.made).toHaveLength(made + 1);
    }
    newest().accept();
    newest().drop();
    vi.advanceTimersByTime(300);
    expect(PlayedSocket.made).toHaveLength(9);
  });

  it('is tried at once when the network is back, and left alone while it is open', () => {
    const { connection } = follow();
    newest().drop();
    connection.retry();
    expect(PlayedSocket.made).toHaveLength(2);
    newest().accept();
    connection.retry();
    vi.advanceTimersByTime(40_000);
    expect(PlayedSocket.made).toHaveLength(2);
  });

  it('is taken for dead when it says nothing for three heartbeats', () => {
    const { connection } = follow();
    newest().accept();
    for (let beat = 0; beat < 10; beat += 1) {
      vi.advanceTimersByTime(15_000);
      newest().say({ type: 'heartbeat', seq: beat });
    }
    expect(connection.state).toBe('open');
    vi.advanceTimersByTime(45_000);
    expect(connection.state).toBe('lost');
    vi.advanceTimersByTime(300);
    expect(PlayedSocket.made).toHaveLength(2);
  });

  it('tells each event once, though the server sends the last ones again', () => {
    const { seen } = follow();
    newest().accept();
    newest().say({ type: 'subscribed', id: 's1', seq: 4 });
    event(5);
    event(6);
    frame();
    newest().drop();
    vi.advanceTimersByTime(300);
    newest().accept();
    newest().say({ type: 'subscribed', id: 's1', seq: 6 });
    for (const seq of [5, 6, 7, 7]) event(seq);
    frame();
    expect(seen).toEqual([5, 6, 7]);
  });

  it('never goes back behind what it saw: an older event is dropped, and the next break goes on from the newest', () => {
    const { seen } = follow();
    newest().accept();
    for (const seq of [9, 8, 10]) event(seq);
    frame();
    newest().drop();
    vi.advanceTimersByTime(300);
    newest().accept();
    expect(seen).toEqual([9, 10]);
    expect(newest().sent).toEqual([{ subscribe: { user: 'me' }, id: 's1', after: 10 }]);
  });

  it('has its subscribers read anew where the server no longer has what was missed', () => {
    const { onGap, seen } = follow();
    newest().accept();
    newest().say({ type: 'subscribed', id: 's1', seq: 4 });
    newest().drop();
    vi.advanceTimersByTime(300);
    newest().accept();
    newest().say({ type: 'gap', id: 's1', oldest: 400 });
    newest().say({ type: 'subscribed', id: 's1', seq: 4 });
    event(400);
    frame();
    expect(onGap).toHaveBeenCalledOnce();
    expect(seen).toEqual([400]);
  });

  it('has them read anew, and hears all that comes, where an older backup of the server was restored', () => {
    const { onGap, seen } = follow();
    newest().accept();
    newest().say({ type: 'subscribed', id: 's1', seq: 900 });
    newest().drop();
    vi.advanceTimersByTime(300);
    newest().accept();
    newest().say({ type: 'subscribed', id: 's1', seq: 700 });
    event(701);
    frame();
    expect(onGap).toHaveBeenCalledOnce();
    expect(seen).toEqual([701]);
  });

  it('takes no word from a connection that another has replaced', () => {
    const { connection, seen } = follow();
    const first = newest();
    first.accept();
    connection.close();
    connection.retry();
    newest().accept();
    first.say({ type: 'event', id: 's1', event: { seq: 1 } });
    first.onclose({ code: 4401 });
    frame();
    expect(seen).toEqual([]);
    expect(connection.state).toBe('open');
    expect(PlayedSocket.made).toHaveLength(2);
  });

  it('says how it stands to those that show it, once at each change', () => {
    const { connection } = follow();
    const states: string[] = [];
    const stop = connection.watch(() => states.push(connection.state));
    newest().accept();
    newest().drop();
    newest().onclose({ code: 1006 });
    vi.advanceTimersByTime(300);
    newest().accept();
    stop();
    newest().drop();
    expect(states).toEqual(['open', 'lost', 'open']);
  });
});

describe('subscriptions', () => {
  const connect = () => new LiveConnection(() => 'ws://there/');
  const frame = () => vi.advanceTimersByTime(20);

  it('that are made while the connection is on its way are sent once it is open', () => {
    const connection = connect();
    connection.events({ job: 'j' }, { onEvents: () => undefined, after: 12 });
    connection.logs({ request: () => ({ job: 'j' }), onMessages: () => undefined });
    expect(PlayedSocket.made).toHaveLength(1);
    expect(newest().sent).toEqual([]);
    newest().accept();
    connection.events({ tenant: 't' }, { onEvents: () => undefined });
    expect(newest().sent).toEqual([{ subscribe: { job: 'j' }, id: 's1', after: 12 }, { subscribe_logs: { job: 'j' }, id: 's2' }, { subscribe: { tenant: 't' }, id: 's3' }]);
  });

  it('hear nothing more once they have ended, not even what waits for the next frame', () => {
    const connection = connect();
    const onEvents = vi.fn();
    const stop = connection.events({ user: 'me' }, { onEvents });
    newest().accept();
    newest().say({ type: 'event', id: 's1', event: { seq: 1 } });
    stop();
    stop();
    newest().say({ type: 'event', id: 's1', event: { seq: 2 } });
    frame();
    expect(onEvents).not.toHaveBeenCalled();
    expect(newest().sent.slice(1)).toEqual([{ unsubscribe: 's1' }]);
  });

  it('that ended are not asked for after a break', () => {
    const connection = connect();
    const stop = connection.events({ user: 'me' }, { onEvents: () => undefined });
    connection.events({ job: 'j' }, { onEvents: () => undefined });
    newest().accept();
    newest().drop();
    stop();
    vi.advanceTimersByTime(1_000);
    newest().accept();
    expect(newest().sent).toEqual([{ subscribe: { job: 'j' }, id: 's2' }]);
  });

  it('hear of all that came since the last frame at once, each its own', () => {
    const connection = connect();
    const [mine, ofJob] = [vi.fn(), vi.fn()];
    connection.events({ user: 'me' }, { onEvents: mine });
    connection.events({ job: 'j' }, { onEvents: ofJob });
    newest().accept();
    for (const seq of [1, 2, 3]) newest().say({ type: 'event', id: 's1', event: { seq } });
    newest().say({ type: 'event', id: 's2', event: { seq: 3 } });
    newest().say({ type: 'event', id: 's9', event: { seq: 3 } });
    expect(mine).not.toHaveBeenCalled();
    frame();
    expect(mine.mock.calls).toEqual([[[{ seq: 1 }, { seq: 2 }, { seq: 3 }]]]);
    expect(ofJob.mock.calls).toEqual([[[{ seq: 3 }]]]);
  });

  it('of a log are told why it ended, where it did not end by itself', () => {
    const connection = connect();
    const told: string[] = [];
    connection.logs({ request: () => ({}), onMessages: () => undefined, onEnd: (code) => told.push(code) });
    newest().accept();
    newest().say({ type: 'error', id: 's1', code: 'not_found' });
    newest().say({ type: 'error', id: 's1' });
    expect(told).toEqual(['not_found', 'error']);
  });
});

describe('a hidden page', () => {
  const hide = (isHidden: boolean) => vi.spyOn(document, 'hidden', 'get').mockReturnValue(isHidden);
  afterEach(() => vi.restoreAllMocks());

  const hearing = () => {
    // Frames are drawn when the test says so: a hidden page draws none.
    const frames = new Map<number, () => void>();
    vi.stubGlobal('requestAnimationFrame', (draw: () => void) => (frames.set(frames.size + 1, draw), frames.size));
    vi.stubGlobal('cancelAnimationFrame', (id: number) => frames.delete(id));
    const batches: number[][] = [];
    const connection = new LiveConnection(() => 'ws://there/');
    connection.events({ user: 'me' }, { onEvents: (events) => batches.push(events.map((event) => event.seq)) });
    newest().accept();
    return { batches, frames, event: (seq: number) => newest().say({ type: 'event', id: 's1', event: { seq } }) };
  };

  it('hears what comes though it draws no frames', () => {
    const { batches, event } = hearing();
    hide(true);
    event(1);
    event(2);
    vi.advanceTimersByTime(250);
    expect(batches).toEqual([[1, 2]]);
  });

  it('hears it also where the frame was asked for before it was hidden', () => {
    const { batches, frames, event } = hearing();
    event(1);
    hide(true);
    event(2);
    vi.advanceTimersByTime(250);
    expect(batches).toEqual([[1, 2]]);
    expect(frames.size).toBe(0);
  });

  it('hears by frames again once it is shown', () => {
    const { batches, frames, event } = hearing();
    hide(true);
    event(1);
    vi.advanceTimersByTime(250);
    hide(false);
    event(2);
    vi.advanceTimersByTime(1_000);
    expect(batches).toEqual([[1]]);
    for (const draw of frames.values()) draw();
    expect(batches).toEqual([[1], [2]]);
  });
});
