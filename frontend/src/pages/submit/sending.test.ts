/** Submitting a job once, whatever the network does; the draft that outlives a reload; and where a page of submission begins. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { isDraftKept } from '@/api/drafts';
import { asProblem } from '@/api/problem';
import { drawHook } from '@/testing/hooks';
import { gate, PlayedServer, refusal, settle, type Call } from '@/testing/server';

import { address, attemptFor, differences, isUnsure, submit, usePlan, useWhy, type Plan } from './asking';
import { findDraft, forgetDraft, keepDraft, type Draft } from './draft';
import { sourceOf, useBeginning } from './loading';
import { HELLO } from './samples';

let server: PlayedServer;
beforeEach(() => {
  sessionStorage.clear();
  server = new PlayedServer().start();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const PLAN = { plan: 'p1', spec: { name: 'a', env: { A: '2' } }, spec_digest: 'd1', depends_on: [], priority: 500 } as unknown as Plan;
const ask = (more: object = {}) => ({ text: 'name: a\n', tenant: 't', reason: '', plan: undefined, older: null, ...more });

describe('an attempt to submit', () => {
  it('names tenant, reason and plan, and has a key of its own', async () => {
    const one = await attemptFor(ask({ plan: PLAN, reason: 'paper & talk' }), null);
    const other = await attemptFor(ask(), null);
    expect(one).toMatchObject({ body: 'name: a\n', type: 'application/yaml', url: '/api/v1/jobs?tenant=t&priority_reason=paper+%26+talk&plan=p1' });
    expect(one.key).toMatch(/^[0-9a-f]{32}$/);
    expect(one.key).not.toBe(other.key);
    expect(address('')).toBe('/api/v1/jobs?');
  });

  it('that may have arrived is sent again with the same key, as long as text and tenant are the same', async () => {
    const unsure = await attemptFor(ask(), null);
    expect(await attemptFor(ask({ plan: PLAN }), unsure)).toBe(unsure);
    expect((await attemptFor(ask({ text: 'name: b\n' }), unsure)).key).not.toBe(unsure.key);
    expect((await attemptFor(ask({ tenant: 'other' }), unsure)).key).not.toBe(unsure.key);
  });

  it('makes one job though it is sent twice', async () => {
    const jobs = new Map<string, string>();
    server.on('POST', '/api/v1/jobs', ({ headers }: Call) => {
      const key = headers.get('Idempotency-Key') ?? '';
      jobs.set(key, jobs.get(key) ?? `job-${jobs.size}`);
      return { id: jobs.get(key), name: 'a' };
    });
    const attempt = await attemptFor(ask(), null);
    const made = [await submit(attempt), await submit(attempt)];
    expect(made.map((job) => job.id)).toEqual(['job-0', 'job-0']);
    expect(server.calls[0]?.headers.get('Content-Type')).toBe('application/yaml');
  });

  it('is unsure where no answer came or the server broke, and sure where it refused', async () => {
    const outcome = async (answer: unknown) => {
      server.on('POST', '/api/v1/jobs', answer);
      return isUnsure(await submit(await attemptFor(ask(), null)).catch((error: unknown) => error));
    };
    expect(await outcome(() => { throw new TypeError('network'); })).toBe(true);
    expect(await outcome(refusal(502))).toBe(true);
    expect(await outcome(refusal(422))).toBe(false);
    expect(await outcome(refusal(409))).toBe(false);
  });
});

describe('a job that is a change of another', () => {
  const older = { id: 'o1', tenant: 't', spec: { name: 'a', env: { A: '1' }, tags: ['x'] } };
  const RERUN = '/api/v1/jobs/o1/rerun';

  it('is submitted as a rerun with its changes, where that makes just this job', async () => {
    server.on('POST', RERUN, { plan: 'p2', spec_digest: 'd1' });
    const attempt = await attemptFor(ask({ plan: PLAN, older }), null);
    expect(server.calls[0]?.query.get('dry_run')).toBe('true');
    expect(attempt).toMatchObject({ type: 'application/json', url: `${RERUN}?plan=p2` });
    expect(JSON.parse(attempt.body)).toEqual({ changes: { env: { A: '2' }, tags: null } });
  });
  it.each([
    ['it would make another', { plan: 'p2', spec_digest: 'd2' }],
    ['it is refused', refusal(403)],
  ])('is submitted by itself where %s', async (_why, answer) => {
    server.on('POST', RERUN, answer);
    expect(await attemptFor(ask({ plan: PLAN, older }), null)).toMatchObject({ type: 'application/yaml' });
  });
  it('is submitted by itself for another tenant, with a reason, and without a plan: none is asked for', async () => {
    for (const more of [{ plan: PLAN, tenant: 'other' }, { plan: PLAN, reason: 'why' }, {}]) expect((await attemptFor(ask({ older, ...more }), null)).type).toBe('application/yaml');
    expect(server.calls).toEqual([]);
  });
  it('is not submitted at all while the platform cannot say', async () => {
    server.on('POST', RERUN, refusal(503, { code: 'overloaded' }));
    await expect(attemptFor(ask({ plan: PLAN, older }), null)).rejects.toMatchObject({ code: 'overloaded' });
  });
});

describe('differences of two specs', () => {
  it('are told part by part, whatever the order of keys', () => {
    expect(differences({ a: 1, b: { c: 1, d: [1] } }, { b: { d: [1], c: 1 }, a: 1 })).toEqual([]);
    expect(differences({ b: { c: 1, d: [1] } }, { b: { c: 2, d: [1, 2] }, e: null })).toEqual([
      { path: 'b.c', older: 1, newer: 2 },
      { path: 'b.d', older: [1], newer: [1, 2] },
      { path: 'e', older: undefined, newer: null },
    ]);
    expect(differences({ a: { x: 1 } }, { a: 'text' })).toEqual([{ path: 'a', older: { x: 1 }, newer: 'text' }]);
  });
});

describe('the plan', () => {
  it('is asked for the text as it stands, stores nothing, and stops when the text is another', async () => {
    const first = gate();
    const bodies: unknown[] = [];
    const signals: AbortSignal[] = [];
    server.on('POST', '/api/v1/jobs', async ({ body, signal }: Call) => {
      bodies.push(body);
      signals.push(signal);
      if (body === 'one') await first.wait;
      return { ...PLAN, plan: String(body) };
    });
    const drawn = await drawHook((text: string) => usePlan({ text, tenant: 't', reason: '', isReady: true }), 'one');
    await drawn.again('two');
    first.open();
    await drawn.act(() => settle());
    expect(drawn.now.data?.plan).toBe('two');
    expect(signals[0]?.aborted).toBe(true);
    expect(Object.fromEntries(server.calls[0]?.query ?? [])).toEqual({ tenant: 't', dry_run: 'true', forecast: 'true' });
    expect(server.calls[0]?.headers.has('Idempotency-Key')).toBe(false);
    await drawn.gone();
  });
  it('that is refused says where', async () => {
    server.on('POST', '/api/v1/jobs', refusal(422, { code: 'invalid_spec', fields: [{ path: '/name', code: 'x', message: 'Too long.' }] }));
    const drawn = await drawHook(() => usePlan({ text: 'x', tenant: '', reason: '', isReady: true }), undefined);
    expect(asProblem(drawn.now.error).at('/name')).toBe('Too long.');
    await drawn.gone();
  });
  it('is not asked for while nothing can be', async () => {
    const drawn = await drawHook(() => usePlan({ text: '', tenant: '', reason: '', isReady: false }), undefined);
    expect(server.calls).toEqual([]);
    await drawn.gone();
  });
  it('says why a job would wait, of that job alone', async () => {
    const forecast = { options: [{ size: 'asked', starts_now: false }] };
    server.on('POST', '/api/v1/what-if', { waits: { jobs: [{ job: { id: 'other' }, reason: { text: 'Not mine.' } }, { job: { id: '/changes/0/a' }, reason: { text: 'No room.' } }] } });
    const drawn = await drawHook((plan: Plan) => useWhy({ plan, tenant: 't' }), { ...PLAN, forecast } as unknown as Plan);
    expect(drawn.now.data).toBe('No room.');
    expect(server.calls[0]?.body).toEqual({ tenant: 't', changes: [{ submit: { spec: { ...PLAN.spec, priority: 500 } } }] });
    const asked = server.calls.length;
    await drawn.again({ ...PLAN, plan: 'p9', forecast: { options: [{ size: 'asked', starts_now: true }] } } as unknown as Plan);
    await drawn.again({ ...PLAN, plan: 'p8', forecast, depends_on: ['x'] } as unknown as Plan);
    expect(server.calls).toHaveLength(asked);
    await drawn.gone();
  });
});

describe('a draft', () => {
  const draft = (more: Partial<Draft> = {}): Draft => ({ text: 'name: mine\n', tenant: 't', source: '', attempt: null, ...more });
  const kept = (source = '') => findDraft(source);

  it('is there after a reload, with the attempt that may have arrived', async () => {
    const attempt = await attemptFor(ask({ text: 'name: mine\n' }), null);
    expect(isDraftKept()).toBe(false);
    keepDraft(draft({ attempt }));
    expect(isDraftKept()).toBe(true);
    expect(kept()).toEqual(draft({ attempt }));
    forgetDraft('');
    expect([kept(), isDraftKept()]).toEqual([null, false]);
  });
  it('keeps no attempt of another text: it would be sent in its place', async () => {
    keepDraft(draft({ attempt: await attemptFor(ask({ text: 'name: other\n' }), null) }));
    expect(kept()?.attempt).toBeNull();
  });
  it('is none where the memory holds something else', () => {
    for (const text of ['', 'null', '[]', '{"text": 3}', 'not json']) {
      sessionStorage.setItem('berth-draft:', text);
      expect(kept()).toBeNull();
    }
  });
  it('is not kept where the browser keeps nothing, and nothing breaks', () => {
    vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
      throw new DOMException('full', 'QuotaExceededError');
    });
    expect(() => keepDraft(draft())).not.toThrow();
    vi.stubGlobal('sessionStorage', undefined);
    expect([kept(), isDraftKept()]).toEqual([null, false]);
    expect(() => forgetDraft('')).not.toThrow();
  });
});

describe('a page of submission begins', () => {
  const begin = async (source: string) => {
    const drawn = await drawHook(() => useBeginning(source, 'mine', true), undefined);
    const { data, error } = drawn.now;
    await drawn.gone();
    return { data, error };
  };

  it('as its address says', () => {
    expect(['', 'from=j1', 'template=t1', 'from=j1&template=t1'].map((text) => sourceOf(new URLSearchParams(text)))).toEqual(['', 'job:j1', 'template:t1', 'job:j1']);
  });
  it('with an example, or with what was being written', async () => {
    expect((await begin('')).data).toMatchObject({ text: HELLO, tenant: 'mine', draft: null });
    keepDraft({ text: 'name: b\n', tenant: 'theirs', source: '', attempt: null });
    expect((await begin('')).data).toMatchObject({ text: 'name: b\n', fresh: HELLO, tenant: 'theirs' });
  });
  it('with the file of another job, and its draft apart from other drafts', async () => {
    server.on('GET', '/api/v1/jobs/j:1', { id: 'j:1', name: 'old', tenant: { slug: 'theirs' } }).on('GET', '/api/v1/jobs/j:1/spec', { name: 'old', roles: { worker: { command: 'x' } } });
    keepDraft({ text: 'name: b\n', tenant: 'mine', source: '', attempt: null });
    expect((await begin('job:j:1')).data).toMatchObject({ text: 'name: old\ncommand: x\n', tenant: 'theirs', origin: { kind: 'job', id: 'j:1' } });
    keepDraft({ text: 'name: changed\n', tenant: 'theirs', source: 'job:j:1', attempt: null });
    expect((await begin('job:j:1')).data).toMatchObject({ text: 'name: changed\n', fresh: 'name: old\ncommand: x\n' });
  });
  it('with a template filled in, which is not rendered again over a draft', async () => {
    server.on('GET', '/api/v1/templates/t1', { title: 'Train', name: 'train', tenant: null }).on('POST', '/api/v1/templates/t1/render', { spec: { name: 'from-template' } });
    expect((await begin('template:t1')).data).toMatchObject({ text: 'name: from-template\n', tenant: 'mine', origin: { kind: 'template', name: 'Train' } });
    keepDraft({ text: 'name: filled\n', tenant: 't', source: 'template:t1', attempt: null });
    server.calls = [];
    expect((await begin('template:t1')).data).toMatchObject({ text: 'name: filled\n' });
    expect(server.asked).toEqual(['GET /api/v1/templates/t1']);
  });
  it('with a problem where the job is not for this reader', async () => {
    server.on('GET', '/api/v1/jobs/j2', refusal(404, { code: 'not_found' })).on('GET', '/api/v1/jobs/j2/spec', refusal(404));
    expect(asProblem((await begin('job:j2')).error).code).toBe('not_found');
  });
});
