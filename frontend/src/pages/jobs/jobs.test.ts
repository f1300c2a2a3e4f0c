/** Filters in the address, and the list while it changes. */

import { describe, expect, it } from 'vitest';

import { areCounted, readFilters, toQuery, writeFilters } from './filters';
import { countNew, withEvents, withHead, type Job, type JobList, type JobPage } from './merge';

const job = (id: string, state = 'queued') => ({ id, state, started_at: null, ended_at: null, reason: null }) as unknown as Job;
const list = (...pages: string[][]): JobList => ({ pages: pages.map((ids) => ({ items: ids.map((id) => job(id)), next: 'x' })), pageParams: pages.map(() => null) });
const ids = (of: JobList) => of.pages.flatMap((page) => page.items.map((each) => each.id));
const head = (...names: string[]): JobPage => ({ items: names.map((name) => job(name)), next: 'y' });

describe('filters', () => {
  it('survive the way through the URL', () => {
    const text = 'state=queued&state=running&mine=true&q=a+b&tag=x&tag=y&sort=priority';
    expect(writeFilters(readFilters(new URLSearchParams(text))).toString()).toBe(text);
  });
  it('ignore what no filter is', () => {
    expect(writeFilters(readFilters(new URLSearchParams('state=nonsense&sort=up&kind=none'))).toString()).toBe('');
  });
  it('turn spans into times', () => {
    expect(toQuery(readFilters(new URLSearchParams('since=24h')), Date.UTC(2026, 0, 2)).since).toBe('2026-01-01T00:00:00.000Z');
  });
  it('know when the counts are theirs', () => {
    expect(areCounted(readFilters(new URLSearchParams('state=queued&queue=a')))).toBe(true);
    expect(areCounted(readFilters(new URLSearchParams('q=a')))).toBe(false);
  });
});

describe('the list while it is looked at', () => {
  it('puts new rows on top and keeps what is below', () => {
    expect(ids(withHead(list(['f', 'e', 'd'], ['c', 'b']), head('h', 'g', 'f'), true))).toEqual(['h', 'g', 'f', 'e', 'd', 'c', 'b']);
  });
  it('drops rows that left the filter', () => {
    expect(ids(withHead(list(['f', 'e', 'd'], ['c', 'b']), head('f', 'd', 'c'), true))).toEqual(['f', 'd', 'c', 'b']);
  });
  it('keeps the identity of rows that did not change', () => {
    const before = list(['b', 'a']);
    expect(withHead(before, head('c', 'b'), true).pages[0]?.items[1]).toBe(before.pages[0]?.items[0]);
  });
  it('counts what is new', () => {
    expect(countNew(list(['b', 'a']), head('d', 'c', 'b'))).toBe(2);
  });
  it('changes only the row of an event', () => {
    const before = list(['b', 'a'], ['0']);
    const event = { seq: 1, kind: 'job.running', at: 'T', tenant_id: null, job_id: 'a', subject: { kind: 'job', id: 'a' }, data: { to: 'running' } };
    const after = withEvents(before, [event]);
    expect(after.pages[0]?.items[1]).toMatchObject({ state: 'running', started_at: 'T' });
    expect(after.pages[0]?.items[0]).toBe(before.pages[0]?.items[0]);
    expect(after.pages[1]).toBe(before.pages[1]);
    expect(withEvents(after, [event])).toBe(after);
  });
});
