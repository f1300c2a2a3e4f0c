/** What the live connection tells its subscribers, and in which order; the socket is a double whose other end the test plays. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { LiveConnection } from './live';

class PlayedSocket {
  static readonly OPEN = 1;
  static made: PlayedSocket[] = [];
  readyState = 0;
  sent: Record<string, unknown>[] = [];
  onopen: () => void = () => undefined;
  onmessage: (message: { data: string }) => void = () => undefined;
  onclose: (event: { code: number }) => void = () => undefined;

  constructor(readonly address: string) {
    PlayedSocket.made.push(this);
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }
  close(): void {
    this.drop();
  }
  accept(): void {
    this.readyState = PlayedSocket.OPEN;
    this.onopen();
  }
  say(message: Record<string, unknown>): void {
    this.onmessage({ data: JSON.stringify(message) });
  }
  drop(code = 1006): void {
    this.readyState = 3;
    this.onclose({ code });
  }
}

const newest = () => PlayedSocket.made.at(-1)!;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('WebSocket', PlayedSocket);
  PlayedSocket.made = [];
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
