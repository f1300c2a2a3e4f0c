/** Small pieces of state that pages share: the address, a field that settles, pages of a list, a deed that is being done, keys of a list. */

import { useSearchParams } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { usePaged } from '@/api/paging';
import { prefer, preferencesQuery } from '@/api/preferences';
import { queries } from '@/api/query';
import { useDeed } from '@/pages/account/deed';
import { useListKeys } from '@/pages/jobs/keys';
import { drawHook } from '@/testing/hooks';
import { gate, PlayedServer, refusal } from '@/testing/server';

import { useAddress, useSettling } from './address';

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

describe('the address', () => {
  it('keeps choices, takes empty ones out, and leaves those of others', async () => {
    const drawn = await drawHook(() => useAddress(), undefined, { address: '/jobs?q=a&tab=x' });
    await drawn.act(() => drawn.now[1]({ q: '', state: 'queued', mine: null }));
    expect(drawn.now[0].toString()).toBe('tab=x&state=queued');
    await drawn.act(() => {
      drawn.now[1]({ q: 'b' });
      drawn.now[1]({ q: 'c' });
    });
    expect(drawn.now[0].get('q')).toBe('c');
    await drawn.gone();
  });
  it('gets the text of a field once its writer pauses, and gives it back where the address changes by itself', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const put = vi.fn();
    const drawn = await drawHook((value: string) => useSettling(value, put), '');
    for (const text of ['t', 'tr', 'tra']) await drawn.act(() => drawn.now[1](text));
    expect([drawn.now[0], put.mock.calls.length]).toEqual(['tra', 0]);
    await drawn.act(() => vi.advanceTimersByTime(400));
    expect(put.mock.calls).toEqual([['tra']]);
    await drawn.again('back');
    expect(drawn.now[0]).toBe('back');
    await drawn.gone();
  });
  it('is one for all parts of a page', async () => {
    const drawn = await drawHook(() => ({ one: useAddress(), other: useSearchParams()[0] }), undefined);
    await drawn.act(() => drawn.now.one[1]({ a: '1' }));
    expect(drawn.now.other.get('a')).toBe('1');
    await drawn.gone();
  });
});

describe('a list by pages', () => {
  const page = (cursor: string | undefined) => ({ items: [cursor ?? 'first'], next: cursor === 'c2' ? null : cursor === 'c1' ? 'c2' : 'c1' });

  it('grows page by page, each asked for once', async () => {
    const read = vi.fn((cursor: string | undefined) => Promise.resolve(page(cursor)));
    const drawn = await drawHook(() => usePaged(['list'], read), undefined);
    expect([drawn.now.rows, drawn.now.hasMore]).toEqual([['first'], true]);
    await drawn.act(() => {
      drawn.now.more();
      drawn.now.more();
    });
    await drawn.act(() => drawn.now.more());
    await drawn.act(() => drawn.now.more());
    expect([drawn.now.rows, drawn.now.hasMore]).toEqual([['first', 'c1', 'c2'], false]);
    expect(read.mock.calls.map(([cursor]) => cursor)).toEqual([undefined, 'c1', 'c2']);
    await drawn.gone();
  });
  it('keeps what is shown while other filters are read', async () => {
    const next = gate();
    const drawn = await drawHook((filter: string) => usePaged(['list', filter], async () => (filter === 'b' && (await next.wait), { items: [filter], next: null })), 'a');
    await drawn.again('b');
    expect(drawn.now.rows).toEqual(['a']);
    await drawn.act(() => next.open());
    expect(drawn.now.rows).toEqual(['b']);
    await drawn.gone();
  });
  it('tells a refusal only where nothing is shown, and reads again when asked', async () => {
    let isBroken = true;
    const drawn = await drawHook(() => usePaged(['list'], () => (isBroken ? Promise.reject(new Error('no')) : Promise.resolve(page('c2')))), undefined);
    expect([drawn.now.rows, drawn.now.error?.message]).toEqual([null, 'no']);
    isBroken = false;
    await drawn.act(() => drawn.now.retry());
    expect([drawn.now.rows, drawn.now.error]).toEqual([['c2'], null]);
    isBroken = true;
    await drawn.act(() => drawn.now.retry());
    expect([drawn.now.rows, drawn.now.error]).toEqual([['c2'], null]);
    await drawn.gone();
  });
});

describe('a deed', () => {
  it('is busy while it is done, and keeps its refusal until the next one', async () => {
    const held = gate();
    const drawn = await drawHook(() => useDeed(), undefined);
    let result: Promise<boolean> | undefined;
    await drawn.act(() => {
      result = drawn.now.run(() => held.wait);
    });
    expect(drawn.now.isBusy).toBe(true);
    await drawn.act(() => held.fail(new Error('refused')));
    expect(await result).toBe(false);
    expect([drawn.now.isBusy, drawn.now.problem?.detail]).toEqual([false, 'refused']);
    await drawn.act(async () => expect(await drawn.now.run(() => Promise.resolve())).toBe(true));
    expect(drawn.now.problem).toBeNull();
    await drawn.gone();
  });
});

describe('preferences', () => {
  it('are what the platform took, and stay as they were where it refused', async () => {
    const server = new PlayedServer().start();
    queries.setQueryData(preferencesQuery.queryKey, { theme: 'light' } as never);
    server.on('PATCH', '/api/v1/preferences', refusal(422));
    await expect(prefer({ theme: 'dark' })).rejects.toMatchObject({ status: 422 });
    expect(queries.getQueryData(preferencesQuery.queryKey)).toEqual({ theme: 'light' });
    server.on('PATCH', '/api/v1/preferences', { theme: 'dark', language: 'zh' });
    await prefer({ theme: 'dark' });
    expect(queries.getQueryData(preferencesQuery.queryKey)).toEqual({ theme: 'dark', language: 'zh' });
  });
});

describe('keys of the list', () => {
  const move = vi.fn();
  const toggle = vi.fn();
  let place: HTMLElement;

  beforeEach(() => {
    move.mockClear();
    toggle.mockClear();
    document.body.innerHTML = '<input id="field" type="search" /><div id="list" tabindex="-1">' + [0, 1, 2].map((row) => `<div aria-rowindex="${row + 2}"><a href="#" id="row${row}">r</a></div>`).join('') + '</div><div role="dialog"><button id="inDialog">b</button></div>';
    place = document.getElementById('list') as HTMLElement;
  });
  const press = (key: string, at: string | null = null, more: KeyboardEventInit = {}) => {
    const target = at === null ? document.body : (document.getElementById(at) as HTMLElement);
    target.focus();
    target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, ...more }));
  };
  const listen = (count = 3) => drawHook(() => useListKeys({ place: { current: place }, count, move, toggle }), undefined);

  it('move from row to row, and stop at both ends', async () => {
    const drawn = await listen();
    for (const key of ['k', 'j', 'j', 'j', 'j', 'k']) press(key);
    expect(move.mock.calls.flat()).toEqual([0, 1, 2, 2, 2, 1]);
    await drawn.gone();
  });
  it('begin at the row that has the focus, and tick it', async () => {
    const drawn = await listen();
    press('j', 'row1');
    press('x', 'row1');
    press('ArrowUp', 'row2');
    expect([move.mock.calls.flat(), toggle.mock.calls.flat()]).toEqual([[2, 1], [1]]);
    await drawn.gone();
  });
  it('are left alone while something is typed, in windows, with Ctrl, and after g', async () => {
    const drawn = await listen();
    press('j', 'field');
    press('j', 'inDialog');
    press('j', null, { ctrlKey: true });
    press('ArrowDown'); // Outside of the list the page scrolls.
    press('x');
    press('g');
    press('j');
    expect([move.mock.calls, toggle.mock.calls]).toEqual([[], []]);
    await drawn.gone();
  });
  it('do nothing in an empty list, and nothing once the page was left', async () => {
    const empty = await listen(0);
    press('j');
    await empty.gone();
    const left = await listen();
    await left.gone();
    press('j');
    expect(move).not.toHaveBeenCalled();
  });
});
