/** The list of jobs while others work: pages, live events, what is new held back, and what is done to many. */

import type { QueryClient } from '@tanstack/react-query';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { LiveEvent } from '@/api/live';
import { tell } from '@/app/heard';
import { drawHook, newCache } from '@/testing/hooks';
import { gate, PlayedServer, refusal, settle, type Call } from '@/testing/server';

import { actOnAll, AT_ONCE, type Deed, type Outcome } from './bulk';
import { toRows } from './csv';
import { EXPORT_MAX, exportJobs } from './export';
import { isFiltered, readFilters, timeText, toPairs, toQuery, writeFilters } from './filters';
import { useCounts, useJobList } from './list';
import { countNew, withEvents, withHead, withRows, type Job, type JobList } from './merge';
import { Selection } from './selection';

/** Ids grow with the time of submission: `job(9)` is newer than `job(8)`. */
const id = (number: number) => `j${String(number).padStart(5, '0')}`;
const job = (number: number, more: Partial<Job> = {}) => ({ id: id(number), name: `n${number}`, state: 'queued', reason: { code: 'no_room', text: 'No room.' }, started_at: null, ended_at: null, ...more }) as Job;
const event = (number: number, to: string, seq = 1, kind = `job.${to}`): LiveEvent => ({ seq, kind, at: `at-${seq}`, tenant_id: null, job_id: id(number), subject: { kind: 'job', id: id(number) }, data: { to } });
const listOf = (...pages: number[][]): JobList => ({ pages: pages.map((numbers, index) => ({ items: numbers.map((number) => job(number)), next: index < pages.length - 1 ? `c${index}` : 'more' })), pageParams: pages.map((_, index) => (index === 0 ? null : `c${index - 1}`)) });
const head = (numbers: number[], next: string | null = 'c') => ({ items: numbers.map((number) => job(number)), next });
const numbers = (list: JobList) => list.pages.flatMap((page) => page.items.map((each) => Number(each.id.slice(1))));

let server: PlayedServer;
beforeEach(() => {
  server = new PlayedServer().start();
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe('rows that are read anew', () => {
  it('begin the list anew where more is new than one page holds: what lies between is not known', () => {
    expect(numbers(withHead(listOf([9, 8], [7, 6]), head([30, 29, 28]), true))).toEqual([30, 29, 28]);
  });
  it('are the whole list where there is no next page', () => {
    const whole = withHead(listOf([9, 8], [7, 6]), head([9, 7], null), true);
    expect([numbers(whole), whole.pages[0]?.next]).toEqual([[9, 7], null]);
  });
  it('in another order keep what is below, each row once', () => {
    expect(numbers(withHead(listOf([3, 9, 5], [7, 1]), head([7, 3, 9]), false))).toEqual([7, 3, 9, 5, 1]);
    expect(numbers(withHead(listOf([3, 9, 5]), head([7, 3]), false))).toEqual([7, 3]);
  });
  it('leave an empty list to its first reading', () => {
    const empty: JobList = { pages: [], pageParams: [] };
    expect(withHead(empty, head([1]), true)).toBe(empty);
  });
  it('keep pages further down as they are, the same objects', () => {
    const before = listOf([9, 8, 7], [6, 5]);
    expect(withHead(before, head([10, 9, 8, 7]), true).pages[1]?.items).toBe(before.pages[1]?.items);
  });
  it('are counted as new up to the first that is known', () => {
    expect([countNew(listOf([9]), head([9])), countNew(listOf([9]), head([12, 11, 10])), countNew(listOf([9]), head([10, 9, 8]))]).toEqual([0, 3, 1]);
  });
  it('one by one change at their places, and bring nothing in', () => {
    const before = listOf([9, 8], [7]);
    const after = withRows(before, [job(8, { state: 'running' }), job(99)]);
    expect(numbers(after)).toEqual([9, 8, 7]);
    expect([after.pages[0]?.items[1]?.state, after.pages[1]]).toEqual(['running', before.pages[1]]);
    expect(withRows(before, [job(8)])).toBe(before);
  });
});

describe('events', () => {
  const stateOf = (list: JobList) => list.pages[0]?.items[0];
  it('set when a job began and ended, and take the reason of its wait away', () => {
    const runs = withEvents(listOf([1]), [event(1, 'running', 5)]);
    expect(stateOf(runs)).toMatchObject({ state: 'running', started_at: 'at-5', ended_at: null, reason: null });
    const ended = withEvents(runs, [event(1, 'failed', 9)]);
    expect(stateOf(ended)).toMatchObject({ state: 'failed', started_at: 'at-5', ended_at: 'at-9' });
    expect(stateOf(withEvents(ended, [event(1, 'queued', 11)]))).toMatchObject({ state: 'queued', ended_at: null });
  });
  it('of one job count by the last of them', () => {
    expect(stateOf(withEvents(listOf([1]), [event(1, 'starting', 1), event(1, 'running', 2)]))?.state).toBe('running');
  });
  it('of states that this portal does not know, of other kinds, and of other jobs change nothing', () => {
    const before = listOf([1]);
    for (const each of [event(1, 'dreaming'), event(1, 'running', 1, 'attempt.running'), event(2, 'running'), { ...event(1, 'running'), job_id: null }, { ...event(1, 'running'), data: {} }]) expect(withEvents(before, [each])).toBe(before);
  });
});

describe('the list on the screen', () => {
  const FILTERS = readFilters(new URLSearchParams());
  let all: Job[];
  let cache: QueryClient;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
    cache = newCache();
    all = Array.from({ length: 250 }, (_, index) => job(250 - index));
    server.on('GET', '/api/v1/jobs', ({ query }: Call) => {
      const from = Number(query.get('cursor') ?? 0);
      const limit = Number(query.get('limit'));
      return { items: all.slice(from, from + limit), next: from + limit < all.length ? String(from + limit) : null };
    });
    server.on('GET', /^\/api\/v1\/jobs\/j/, ({ path }: Call) => all.find((each) => path.endsWith(each.id)) ?? refusal(404));
  });

  async function drawn() {
    const hook = await drawHook(() => useJobList(FILTERS), undefined, { cache });
    await wait(hook, 1);
    return hook;
  }
  /** Let the played clock go on, and what follows arrive. */
  async function wait(hook: { act: (work: () => unknown) => Promise<void> }, ms: number): Promise<void> {
    for (let turn = 0; turn < 4; turn += 1) {
      await hook.act(async () => {
        await vi.advanceTimersByTimeAsync(turn === 0 ? ms : 1);
        await settle(3);
      });
    }
  }
  const shown = (hook: { now: { rows: readonly Job[] } }) => hook.now.rows.map((each) => Number(each.id.slice(1)));

  it('reads page after page as its reader goes down, and stops at the end', async () => {
    const hook = await drawn();
    expect(shown(hook)).toHaveLength(100);
    for (let turn = 0; turn < 4; turn += 1) {
      await hook.act(() => hook.now.more());
      await wait(hook, 1);
    }
    expect(shown(hook)).toEqual(Array.from({ length: 250 }, (_, index) => 250 - index));
    expect(server.calls.map((call) => call.query.get('cursor'))).toEqual([null, '100', '200']);
    await hook.gone();
  });
  it('asks every page the same question, though a span of time goes on', async () => {
    const hook = await drawHook(() => useJobList(readFilters(new URLSearchParams('since=24h'))), undefined, { cache });
    await wait(hook, 1);
    await wait(hook, 2_000);
    await hook.act(() => hook.now.more());
    await wait(hook, 1);
    const [first, second] = server.calls.filter((call) => call.query.get('limit') === '100').map((call) => call.query.get('since'));
    expect(second).toBe(first);
    await hook.gone();
  });
  it('shows an event at once, and what is new when the first page was read again', async () => {
    const hook = await drawn();
    await hook.act(() => tell([event(249, 'running')]));
    await wait(hook, 1);
    expect(hook.now.rows[1]?.state).toBe('running');
    all = [job(251), ...all];
    await hook.act(() => tell([event(251, 'queued')]));
    expect(shown(hook)[0]).toBe(250);
    await wait(hook, 3_000);
    expect(shown(hook)[0]).toBe(251);
    await hook.gone();
  });
  it('asks once for many events', async () => {
    const hook = await drawn();
    const asked = server.calls.length;
    for (let seq = 0; seq < 20; seq += 1) await hook.act(() => tell([event(250, 'running', seq)]));
    await wait(hook, 3_000);
    expect(server.calls.length - asked).toBe(1);
    await hook.gone();
  });
  it('holds new rows back while its reader is further down, and brings them when asked', async () => {
    const hook = await drawn();
    hook.now.onTop(false);
    all = [job(252), job(251), ...all];
    await hook.act(() => tell([event(251, 'queued')]));
    await wait(hook, 3_000);
    expect([shown(hook)[0], hook.now.heldBack]).toEqual([250, 2]);
    await hook.act(() => hook.now.showNew());
    expect([shown(hook).slice(0, 3), hook.now.heldBack]).toEqual([[252, 251, 250], 0]);
    await hook.gone();
  });
  it('puts rows right that lie below the page read anew, one by one', async () => {
    const hook = await drawn();
    all[80] = { ...job(170), reason: { code: 'held', text: 'Held.' } } as Job;
    await hook.act(() => tell([event(170, 'queued', 1, 'job.held')]));
    await wait(hook, 3_000);
    expect(server.asked.at(-1)).toBe(`GET /api/v1/jobs/${id(170)}`);
    expect(hook.now.rows[80]?.reason?.code).toBe('held');
    await hook.gone();
  });
  it('asks for nothing while it is hidden, and at once when it is shown again', async () => {
    const hook = await drawn();
    const hidden = vi.spyOn(document, 'hidden', 'get').mockReturnValue(true);
    const asked = server.calls.length;
    await wait(hook, 60_000);
    expect(server.calls).toHaveLength(asked);
    hidden.mockReturnValue(false);
    await hook.act(() => document.dispatchEvent(new Event('visibilitychange')));
    await wait(hook, 3_000);
    expect(server.calls.length).toBeGreaterThan(asked);
    await hook.gone();
  });
  it('goes on after a reading that failed', async () => {
    const hook = await drawn();
    server.on('GET', '/api/v1/jobs', refusal(503));
    await hook.act(() => tell([event(250, 'running')]));
    await wait(hook, 3_000);
    expect(shown(hook)).toHaveLength(100);
    all = [job(251), ...all];
    server.on('GET', '/api/v1/jobs', { items: all.slice(0, 50), next: '50' });
    await wait(hook, 23_000);
    expect(shown(hook)[0]).toBe(251);
    await hook.gone();
  });
  it('takes what an action answered at once, and asks for nothing more once it was left', async () => {
    const hook = await drawn();
    await hook.act(() => hook.now.update([job(250, { state: 'stopping' })]));
    await wait(hook, 1);
    expect(hook.now.rows[0]?.state).toBe('stopping');
    await hook.gone();
    const asked = server.calls.length;
    tell([event(250, 'stopped')]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.calls).toHaveLength(asked);
  });
  it('is counted by the platform only where its counts know the filters', async () => {
    server.on('GET', '/api/v1/jobs:counts', { states: { queued: 3 } });
    const counted = await drawHook((text: string) => useCounts(readFilters(new URLSearchParams(text))), 'queue=q1');
    await wait(counted, 1);
    expect(counted.now).toEqual({ queued: 3 });
    await counted.again('queue=q1&q=train');
    expect(counted.now).toBeNull();
    await counted.gone();
  });
});

describe('one deed to many jobs', () => {
  const jobs = Array.from({ length: 9 }, (_, number) => job(number));
  const states = (outcomes: readonly Outcome[]) => outcomes.map((outcome) => outcome.state);

  it.each<[Deed, string, unknown]>([
    [{ kind: 'stop', reason: 'over' }, `POST /api/v1/jobs/${id(1)}/stop`, { reason: 'over' }],
    [{ kind: 'rerun' }, `POST /api/v1/jobs/${id(1)}/rerun`, {}],
    [{ kind: 'tag', tag: 'a b' }, `PUT /api/v1/jobs/${id(1)}/tags/a b`, ''],
    [{ kind: 'untag', tag: 'x' }, `DELETE /api/v1/jobs/${id(1)}/tags/x`, ''],
    [{ kind: 'priority', priority: 'high' }, `PATCH /api/v1/jobs/${id(1)}`, { priority: 'high' }],
  ])('%j is the call %s', async (deed, call, body) => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) server.on(method, /./, job(1));
    const [outcome] = await actOnAll([job(1)], deed, () => undefined, new AbortController().signal);
    expect([server.asked[0], server.calls[0]?.body, outcome?.state, outcome?.after?.id]).toEqual([call, body, 'done', id(1)]);
  });
  it('goes to a few at once, and tells each answer as it comes', async () => {
    let running = 0;
    let most = 0;
    server.on('POST', /stop$/, async () => {
      running += 1;
      most = Math.max(most, running);
      await settle(1);
      running -= 1;
      return job(1);
    });
    const seen: number[] = [];
    await actOnAll(jobs, { kind: 'stop' }, (outcomes) => seen.push(outcomes.filter((outcome) => outcome.state === 'done').length), new AbortController().signal);
    expect(most).toBe(AT_ONCE);
    expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
  });
  it('keeps the refusal of each that refused, and goes on', async () => {
    server.on('POST', /stop$/, ({ path }: Call) => (path.includes(id(3)) ? refusal(409, { code: 'already_ended' }) : job(1)));
    const outcomes = await actOnAll(jobs, { kind: 'stop' }, () => undefined, new AbortController().signal);
    expect(states(outcomes).filter((state) => state === 'done')).toHaveLength(8);
    expect(outcomes[3]).toMatchObject({ state: 'failed', problem: { code: 'already_ended' } });
  });
  it('is broken off between jobs: what was begun ends, what is left was not done', async () => {
    const abort = new AbortController();
    const held = gate();
    server.on('POST', /stop$/, async () => (await held.wait, job(1)));
    const work = actOnAll(jobs, { kind: 'stop' }, () => undefined, abort.signal);
    await settle();
    abort.abort();
    held.open();
    expect(states(await work)).toEqual([...Array<string>(AT_ONCE).fill('done'), ...Array<string>(9 - AT_ONCE).fill('skipped')]);
    expect(server.calls).toHaveLength(AT_ONCE);
  });
});

describe('chosen rows', () => {
  const all = ['a', 'b', 'c', 'd', 'e'];
  it('are ticked one by one, and by a range from the last', () => {
    const selection = new Selection();
    selection.toggle('b', all, false);
    selection.toggle('d', all, true);
    expect(selection.ids).toEqual(['b', 'c', 'd']);
    selection.toggle('c', all, false);
    expect([selection.ids, selection.has('c')]).toEqual([['b', 'd'], false]);
    selection.toggle('a', all, true);
    expect([...selection.ids].sort()).toEqual(['a', 'b', 'c', 'd']);
  });
  it('of a range whose beginning has left the list are the one row', () => {
    const selection = new Selection();
    selection.toggle('x', ['x'], false);
    selection.toggle('c', all, true);
    expect([...selection.ids].sort()).toEqual(['c', 'x']);
  });
  it('are told once for each change, as another list', () => {
    const selection = new Selection();
    const seen: (readonly string[])[] = [];
    const stop = selection.watch(() => seen.push(selection.ids));
    selection.set(all);
    selection.clear();
    stop();
    selection.set(['a']);
    expect(seen).toEqual([all, []]);
    selection.clear();
    selection.toggle('c', all, true);
    expect(selection.ids).toEqual(['c']); // No range from what was ticked before.
  });
});

describe('filters', () => {
  const read = (text: string) => readFilters(new URLSearchParams(text));
  it('are the same however they were written', () => {
    const address = 'state=queued&state=running&tag=a&tag=b';
    expect(writeFilters(read('tag=a&state=running,queued&tag=b&tag=a&tag=')).toString()).toBe(address);
    expect(read('mine=1').mine && read('mine=yes').mine && !read('mine=0').mine).toBe(true);
  });
  it('narrow the list or only order it', () => {
    expect([isFiltered(read('sort=priority')), isFiltered(read('parent=p')), isFiltered(read('mine=true'))]).toEqual([false, true, true]);
  });
  it('ask the API for what is set, and nothing else', () => {
    expect(JSON.parse(JSON.stringify(toQuery(read(''), 0)))).toEqual({});
    expect(toPairs(toQuery(read('tag=a&tag=b&mine=true&since=7d&until=2026-11-01T00:00:00Z'), Date.parse('2026-11-24T00:00:00Z')))).toEqual([['mine', 'true'], ['tag', 'a'], ['tag', 'b'], ['since', '2026-11-17T00:00:00.000Z'], ['until', '2026-11-01T00:00:00Z']]);
  });
  it('show times to people, and spans as they stand', () => {
    const show = (iso: string) => `<${iso}>`;
    expect([timeText('2026-11-01T00:00:00Z', show), timeText('24h', show), timeText('2026-99', show), timeText('', show)]).toEqual(['<2026-11-01T00:00:00Z>', '24h', '2026-99', '']);
  });
});

describe('the list as a file', () => {
  const FULL = job(1, { tenant: { name: 'Vision' }, queue: { name: 'q' }, user: { name: '=SUM(A1)' }, kind: 'batch', priority: 500, resources: { gpu_millis: 1500, cpu_millis: 500, memory_bytes: 1024 }, pool: null, submitted_at: 'T', exit: { code: 0 }, tags: ['a', 'b'] } as unknown as Partial<Job>);
  it('has its columns by name, and amounts as numbers', () => {
    const [names, row] = toRows([FULL]);
    const value = (name: string) => row?.[names?.indexOf(name) ?? -1];
    expect([value('gpus'), value('cores'), value('tags'), value('exit_code'), value('pool'), value('reason')]).toEqual([1.5, 0.5, 'a b', 0, null, 'no_room']);
  });
  it('is read page by page up to its bound, and says when it is cut', async () => {
    vi.stubGlobal('URL', Object.assign(URL, { createObjectURL: () => 'blob:x', revokeObjectURL: () => undefined }));
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => undefined);
    server.on('GET', '/api/v1/jobs', ({ query }: Call) => ({ items: Array.from({ length: 500 }, () => FULL), next: Number(query.get('cursor') ?? 0) + 1 }));
    const counts: number[] = [];
    expect(await exportJobs({ q: 'x' }, (count) => counts.push(count))).toEqual({ count: EXPORT_MAX, isCut: true });
    expect(counts.at(-1)).toBe(EXPORT_MAX);
    server.on('GET', '/api/v1/jobs', { items: [FULL], next: null });
    expect(await exportJobs({}, () => undefined)).toEqual({ count: 1, isCut: false });
  });
});
