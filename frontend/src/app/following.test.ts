/** Which queries an event makes old, and when they are read anew. */

import { QueryObserver } from '@tanstack/react-query';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { live, type LiveEvent } from '@/api/live';
import { queries } from '@/api/query';
import { drawHook } from '@/testing/hooks';
import { settle } from '@/testing/server';

import { touched, useFollowing } from './following';
import { hear, tell } from './heard';

const event = (kind: string, more: Partial<LiveEvent> = {}): LiveEvent => ({ seq: 1, kind, at: 'T', tenant_id: null, job_id: null, subject: { kind: '', id: '' }, data: {}, ...more });

describe('an event', () => {
  const first = (kind: string, more: Partial<LiveEvent> = {}) => touched(event(kind, more)).map((key) => key.join(' '));
  it('of a job makes that job old, and the lists that show it', () => {
    expect(first('job.running', { job_id: 'j1' })).toEqual(['job j1', 'jobs', 'queues', 'board']);
    expect(first('attempt.ended', { job_id: 'j1' })).toContain('job j1');
  });
  it.each([
    ['node.cordoned', 'pools'],
    ['maintenance.planned', 'nodes'],
    ['quota.edited', 'board'],
    ['booking.cancelled', 'bookings'],
    ['member.removed', 'session'],
    ['statement.closed', 'usage'],
    ['volume.created', 'volumes'],
  ])('%s makes %s old', (kind, key) => expect(first(kind)).toContain(key));
  it('of a kind that is not known makes old what is called like it', () => {
    expect(first('gadget.made')).toEqual(['gadget', 'gadgets']);
  });
});

describe('following', () => {
  type Handlers = Parameters<typeof live.events>[1];
  let handlers: Handlers;
  const stop = vi.fn();
  const read = vi.fn(() => Promise.resolve(0));

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    queries.clear();
    read.mockClear();
    stop.mockClear();
    vi.spyOn(live, 'events').mockImplementation((_topic, given) => {
      handlers = given;
      return stop;
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** Show a query, as a page does; its first reading is not counted. */
  async function shown(...queryKey: string[]): Promise<() => void> {
    const end = new QueryObserver(queries, { queryKey, queryFn: read, staleTime: Infinity }).subscribe(() => undefined);
    await settle(3);
    read.mockClear();
    return end;
  }

  it('reads what is shown anew, once a second however much happens', async () => {
    const hook = await drawHook(useFollowing, undefined);
    const end = await shown('job', 'j1', 'tasks');
    for (let count = 0; count < 50; count += 1) handlers.onEvents([event('job.running', { job_id: 'j1' })]);
    await vi.advanceTimersByTimeAsync(999);
    expect(read).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(read).toHaveBeenCalledOnce();
    handlers.onEvents([event('job.running', { job_id: 'other' })]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(read).toHaveBeenCalledOnce();
    end();
    await hook.gone();
  });
  it('reads everything anew after a gap, at once', async () => {
    const hook = await drawHook(useFollowing, undefined);
    const end = await shown('prices');
    handlers.onGap?.();
    await settle(3);
    expect(read).toHaveBeenCalledOnce();
    end();
    await hook.gone();
  });
  it('reads once more what was read before events began to come', async () => {
    const end = await shown('queues');
    const hook = await drawHook(useFollowing, undefined);
    handlers.onBegin?.();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(read).toHaveBeenCalledOnce();
    end();
    await hook.gone();
  });
  it('hands the events on to those that want them, tries again when the network is back, and ends with the page', async () => {
    const heard = vi.fn();
    const retry = vi.spyOn(live, 'retry').mockImplementation(() => undefined);
    const end = hear(heard);
    const hook = await drawHook(useFollowing, undefined);
    handlers.onEvents([event('job.running')]);
    expect(heard).toHaveBeenCalledOnce();
    window.dispatchEvent(new Event('online'));
    expect(retry).toHaveBeenCalledOnce();
    await hook.gone();
    end();
    tell([event('job.running')]);
    window.dispatchEvent(new Event('online'));
    expect([stop.mock.calls.length, retry.mock.calls.length, heard.mock.calls.length]).toEqual([1, 1, 1]);
  });
});
