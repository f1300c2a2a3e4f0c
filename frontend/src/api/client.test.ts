/** The one door to the API: what every call carries, and what a refusal becomes. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { PlayedServer, refusal } from '@/testing/server';

import { api, newKey, onSignedOut, send, setCsrf, setLanguageHeader, take } from './client';
import { readAll } from './fleet';
import { asProblem, Problem, problemOf } from './problem';
import { queries } from './query';

let server: PlayedServer;
const signedOut = vi.fn();
const last = () => server.calls.at(-1)!;

beforeEach(() => {
  server = new PlayedServer().start();
  signedOut.mockReset();
  onSignedOut(signedOut);
  setCsrf('secret');
  setLanguageHeader('zh-CN');
});
afterEach(() => {
  setCsrf('');
  onSignedOut(() => undefined);
  vi.unstubAllGlobals();
});

describe('a call', () => {
  it('that reads asks in the language of the reader, and carries nothing else', async () => {
    server.on('GET', '/api/v1/queues', { items: [], next: null });
    await take(api.GET('/api/v1/queues'));
    expect(last().headers.get('Accept-Language')).toBe('zh-CN');
    expect([last().headers.has('X-Berth-CSRF'), last().headers.has('Idempotency-Key')]).toEqual([false, false]);
  });
  it('that changes something carries the value of its session, and a key where it makes something', async () => {
    server.on('POST', '/api/v1/jobs/j/stop', {}).on('DELETE', '/api/v1/session', undefined);
    await api.POST('/api/v1/jobs/{job}/stop', { params: { path: { job: 'j' } }, body: {} });
    expect(last().headers.get('X-Berth-CSRF')).toBe('secret');
    expect(last().headers.get('Idempotency-Key')).toMatch(/^[0-9a-f]{32}$/);
    await api.DELETE('/api/v1/session');
    expect([last().headers.get('X-Berth-CSRF'), last().headers.has('Idempotency-Key')]).toEqual(['secret', false]);
  });
  it('outside of the description carries the same', async () => {
    server.on('PATCH', '/api/v1/uploads/u', {}).on('GET', '/api/v1/file', 'x');
    await send('PATCH', '/api/v1/uploads/u', { body: 'x', headers: { 'Upload-Offset': '0' } });
    expect(Object.fromEntries(last().headers)).toMatchObject({ 'x-berth-csrf': 'secret', 'accept-language': 'zh-CN', 'upload-offset': '0' });
    await send('GET', '/api/v1/file');
    expect(last().headers.has('X-Berth-CSRF')).toBe(false);
  });
  it('asks for many values of one name one by one', async () => {
    server.on('GET', '/api/v1/jobs', { items: [], next: null });
    await take(api.GET('/api/v1/jobs', { params: { query: { state: ['queued', 'running'] } } }));
    expect(last().query.toString()).toBe('state=queued&state=running');
  });
  it('has a key of its own each time', () => {
    expect(new Set(Array.from({ length: 50 }, newKey)).size).toBe(50);
  });
});

describe('a refusal', () => {
  it('is a problem with all that the platform said', async () => {
    server.on('GET', '/api/v1/jobs/j', refusal(422, { code: 'invalid', type: '/docs/errors#invalid', detail: 'No.', hint: 'Do this.', request_id: 'r1', fields: [{ path: '/name', code: 'x', message: 'Too long.' }] }));
    const problem = asProblem(await take(api.GET('/api/v1/jobs/{job}', { params: { path: { job: 'j' } } })).catch((error: unknown) => error));
    expect(problem).toMatchObject({ status: 422, code: 'invalid', detail: 'No.', hint: 'Do this.', requestId: 'r1', rule: '/docs/errors#invalid', retryable: false });
    expect([problem.at('/name'), problem.at('/other')]).toEqual(['Too long.', undefined]);
  });
  it('of a proxy that knows nothing of us is told by its status', async () => {
    const problem = await problemOf(new Response('<h1>Bad gateway</h1>', { status: 502, headers: { 'Retry-After': '30' } }));
    expect(problem).toMatchObject({ status: 502, code: 'error', retryAfterSeconds: 30, message: 'HTTP 502' });
    expect(await problemOf(new Response('[1]', { status: 500 }))).toMatchObject({ code: 'error' });
    expect(await problemOf(new Response('{}', { status: 429, headers: { 'Retry-After': 'Tue, 24 Nov 2026 12:00:00 GMT' } }))).toMatchObject({ retryAfterSeconds: null });
  });
  it('links to no page but those of our rules', () => {
    expect(new Problem(400, { type: 'https://elsewhere.example/docs/errors#x' }).rule).toBe('');
    expect(new Problem(400, { type: '/docs/errors#x"onclick' }).rule).toBe('');
  });
  it('of a network that fails says that it was not reached, and may be tried again', async () => {
    server.on('GET', '/api/v1/queues', () => { throw new TypeError('Failed to fetch'); });
    const byClient = asProblem(await take(api.GET('/api/v1/queues')).catch((error: unknown) => error));
    const bySend = asProblem(await send('GET', '/api/v1/queues').catch((error: unknown) => error));
    for (const problem of [byClient, bySend]) expect(problem).toMatchObject({ status: 0, code: 'offline', retryable: true });
  });
  it('by the reader leaving the page stays what it is: nothing is told of it', async () => {
    const abort = new AbortController();
    abort.abort();
    await expect(api.GET('/api/v1/queues', { signal: abort.signal })).rejects.toMatchObject({ name: 'AbortError' });
    await expect(send('GET', '/api/v1/queues', { signal: abort.signal })).rejects.toMatchObject({ name: 'AbortError' });
  });
  it('because the session ended is told to the page, except while signing in', async () => {
    server.on('GET', '/api/v1/queues', refusal(401)).on('POST', '/api/v1/session', refusal(401, { code: 'wrong_password' })).on('GET', '/api/v1/session', refusal(401));
    await expect(api.POST('/api/v1/session', { body: { name: 'a', password: 'b' } })).rejects.toMatchObject({ code: 'wrong_password' });
    await expect(api.GET('/api/v1/session')).rejects.toMatchObject({ status: 401 });
    expect(signedOut).not.toHaveBeenCalled();
    await expect(api.GET('/api/v1/queues')).rejects.toMatchObject({ status: 401 });
    await expect(send('GET', '/api/v1/queues')).rejects.toMatchObject({ status: 401 });
    expect(signedOut).toHaveBeenCalledTimes(2);
  });
  it('that is no answer of the API is a fault of the portal', () => {
    expect(asProblem(new RangeError('x'))).toMatchObject({ status: -1, code: 'portal_fault', detail: 'x', retryable: false });
    expect(asProblem('text').detail).toBe('text');
    const problem = new Problem(404, {});
    expect(asProblem(problem)).toBe(problem);
  });
});

describe('what is read again by itself', () => {
  const { retry, retryDelay } = queries.getDefaultOptions().queries ?? {};
  const mayRetry = retry as (count: number, error: unknown) => boolean;
  const delay = retryDelay as (count: number, error: unknown) => number;
  it('is what a second try can help, three times', () => {
    expect([0, 2, 3].map((count) => mayRetry(count, new Problem(503, { retryable: true })))).toEqual([true, true, false]);
    expect([mayRetry(0, new Problem(403, {})), mayRetry(0, new Error('x')), mayRetry(0, new Problem(0, {}))]).toEqual([false, false, true]);
  });
  it('waits longer each time, and as long as the platform asks for', () => {
    expect([0, 1, 4, 9].map((count) => delay(count, new Problem(503, {})))).toEqual([500, 1_000, 8_000, 8_000]);
    expect(delay(0, new Problem(429, {}, '20'))).toBe(20_000);
  });
});

describe('a list that is read to its end', () => {
  it('goes on from cursor to cursor', async () => {
    const asked: unknown[] = [];
    const all = await readAll((page) => {
      asked.push(page.cursor);
      return Promise.resolve({ items: [asked.length], next: asked.length < 3 ? `c${asked.length}` : null });
    });
    expect([all, asked]).toEqual([[1, 2, 3], [undefined, 'c1', 'c2']]);
  });
  it('ends though the server goes on for ever', async () => {
    expect(await readAll(() => Promise.resolve({ items: [0], next: 'again' }))).toHaveLength(40);
  });
  it('is nothing where one page is refused: a part would look like all', async () => {
    let pages = 0;
    await expect(readAll(() => ((pages += 1) === 2 ? Promise.reject(new Problem(503, {})) : Promise.resolve({ items: [1], next: 'c' })))).rejects.toMatchObject({ status: 503 });
  });
});
