/** Who is signed in, what they may do, and what is forgotten when they are gone. */

import { QueryClientProvider } from '@tanstack/react-query';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { pagesFor } from '@/app/pages';
import { PlayedServer, refusal } from '@/testing/server';

import { api } from './client';
import { live } from './live';
import { queries } from './query';
import { hasSessionEnded, isLikelySignedIn, ROLES, SESSION_KEY, SessionProvider, sessionQuery, signIn, signOut, useSession, type SessionState, type Who } from './session';

const who = (tenants: Record<string, string>, isOperator = false) => ({ user: { id: 'u', name: 'alice', is_operator: isOperator }, tenants: Object.entries(tenants).map(([slug, role]) => ({ slug, name: slug, role })) }) as unknown as Who;

let server: PlayedServer;
let unmount: () => void = () => undefined;

/** The session as a page below its provider sees it. */
async function sessionOf(person: Who, features: readonly string[] | null = []): Promise<SessionState> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  let seen: SessionState | null = null;
  const Probe = () => ((seen = useSession()), null);
  const root = createRoot(document.body.appendChild(document.createElement('div')));
  await act(async () =>
    root.render(
      <QueryClientProvider client={queries}>
        <SessionProvider who={person} features={features}>
          <Probe />
        </SessionProvider>
      </QueryClientProvider>,
    ),
  );
  unmount = () => act(() => root.unmount());
  if (!seen) throw new Error('no session');
  return seen;
}

beforeEach(() => {
  localStorage.clear();
  queries.clear();
  server = new PlayedServer().start();
  vi.spyOn(live, 'close').mockImplementation(() => undefined);
});
afterEach(() => {
  unmount();
  unmount = () => undefined;
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe('what a person may do', () => {
  it('is by role in a tenant, and by the highest role where no tenant is named', async () => {
    const session = await sessionOf(who({ vision: 'member', speech: 'viewer' }));
    expect(ROLES.map((role) => session.may(role, 'vision'))).toEqual([true, true, false]);
    expect(ROLES.map((role) => session.may(role, 'speech'))).toEqual([true, false, false]);
    expect(ROLES.map((role) => session.may(role))).toEqual([true, true, false]);
    expect(ROLES.map((role) => session.may(role, 'elsewhere'))).toEqual([false, false, false]);
  });
  it('is nothing for a role that this portal does not know', async () => {
    const session = await sessionOf(who({ vision: 'auditor' }));
    expect(ROLES.map((role) => session.may(role, 'vision'))).toEqual([false, false, false]);
  });
  it('is not a role in every tenant because one is an operator', async () => {
    const session = await sessionOf(who({}, true));
    expect([session.isOperator, session.may('viewer', 'vision')]).toEqual([true, false]);
  });
  it('includes features that are switched on, and all while that is not known', async () => {
    expect((await sessionOf(who({}), ['billing'])).has('billing')).toBe(true);
    expect((await sessionOf(who({}), ['billing'])).has('bookings')).toBe(false);
    expect((await sessionOf(who({}), null)).has('bookings')).toBe(true);
  });
});

describe('the pages that are offered', () => {
  const names = async (person: Who, features: readonly string[] = []) => pagesFor(await sessionOf(person, features)).map((page) => page.name);
  it('to a viewer are those to look at: nothing to submit, nothing to decide', async () => {
    const pages = await names(who({ vision: 'viewer' }));
    expect(pages).toContain('jobs');
    for (const page of ['submit', 'quotas', 'audit', 'nodes', 'users', 'features'] as const) expect(pages).not.toContain(page);
  });
  it('to a member include submission', async () => {
    const pages = await names(who({ vision: 'member' }));
    expect(pages).toContain('submit');
    expect(pages).not.toContain('quotas');
  });
  it('to a manager include what a tenant decides, and nothing of the clusters', async () => {
    const pages = await names(who({ vision: 'manager' }), ['announcements']);
    for (const page of ['quotas', 'audit', 'announcements'] as const) expect(pages).toContain(page);
    for (const page of ['nodes', 'clusters', 'maintenance', 'users', 'features'] as const) expect(pages).not.toContain(page);
  });
  it('to an operator without a tenant include the clusters, and no submission', async () => {
    const pages = await names(who({}, true));
    for (const page of ['nodes', 'clusters', 'maintenance', 'users', 'features', 'quotas'] as const) expect(pages).toContain(page);
    expect(pages).not.toContain('submit');
  });
  it('leave out features that are switched off', async () => {
    const everybody = who({ vision: 'manager' }, true);
    const off = await names(everybody, []);
    const on = await names(everybody, ['templates', 'notebook', 'bookings', 'billing', 'announcements']);
    expect(on.filter((name) => !off.includes(name)).sort()).toEqual(['announcements', 'bookings', 'notebook', 'prices', 'templates']);
  });
  it('have each a letter of their own after g', async () => {
    const keys = pagesFor(await sessionOf(who({ vision: 'manager' }, true), null)).flatMap((page) => page.key ?? []);
    expect(new Set(keys).size).toBe(keys.length);
  });
});

describe('a session', () => {
  const PERSON = { ...who({ vision: 'member' }), csrf: 'token-1' };
  const read = () => queries.fetchQuery({ ...sessionQuery, staleTime: 0 });

  it('is remembered for the next visit, and its value goes with every change', async () => {
    server.on('GET', '/api/v1/session', PERSON).on('POST', '/api/v1/jobs/j/stop', {});
    expect(isLikelySignedIn()).toBe(false);
    await read();
    await api.POST('/api/v1/jobs/{job}/stop', { params: { path: { job: 'j' } }, body: {} });
    expect([isLikelySignedIn(), server.calls.at(-1)?.headers.get('X-Berth-CSRF')]).toEqual([true, 'token-1']);
  });
  it('that is none is null, and forgotten', async () => {
    localStorage.setItem('berth-signed-in', 'yes');
    server.on('GET', '/api/v1/session', refusal(401));
    expect(await read()).toBeNull();
    expect(isLikelySignedIn()).toBe(false);
  });
  it('that cannot be asked for is not taken for none', async () => {
    localStorage.setItem('berth-signed-in', 'yes');
    server.on('GET', '/api/v1/session', refusal(500));
    await expect(read()).rejects.toMatchObject({ status: 500 });
    expect(isLikelySignedIn()).toBe(true);
  });
  it('that ends under the page forgets what was read, closes the live connection, and says that it ended', async () => {
    await sessionOf(who({ vision: 'member' }));
    queries.setQueryData(SESSION_KEY, PERSON);
    queries.setQueryData(['jobs'], ['of vision']);
    queries.setQueryData(['info'], { version: '1' });
    server.on('GET', '/api/v1/queues', refusal(401));
    await api.GET('/api/v1/queues').catch(() => undefined);
    expect(queries.getQueryData(['jobs'])).toBeUndefined();
    expect(queries.getQueryData(SESSION_KEY)).toBeNull();
    expect(queries.getQueryData(['info'])).toEqual({ version: '1' });
    expect(live.close).toHaveBeenCalled();
    expect(hasSessionEnded()).toBe(true);
  });
  it('that the live connection finds ended is the same', async () => {
    await sessionOf(who({ vision: 'member' }));
    queries.setQueryData(SESSION_KEY, PERSON);
    live.onSignedOut();
    expect([queries.getQueryData(SESSION_KEY), hasSessionEnded()]).toEqual([null, true]);
  });
  it('of the next person shows nothing of the last', async () => {
    queries.setQueryData(['jobs'], ['of the last']);
    server.on('POST', '/api/v1/session', PERSON);
    await signIn({ name: 'alice', password: 'x' });
    expect(queries.getQueryData(['jobs'])).toBeUndefined();
    expect(queries.getQueryData(SESSION_KEY)).toMatchObject({ user: { name: 'alice' } });
    expect(hasSessionEnded()).toBe(false);
  });
  it('that is refused leaves things as they were', async () => {
    queries.setQueryData(['sign-in-methods'], ['password']);
    server.on('POST', '/api/v1/session', refusal(401, { code: 'wrong_password' }));
    await expect(signIn({ name: 'alice', password: 'x' })).rejects.toMatchObject({ code: 'wrong_password' });
    expect(queries.getQueryData(['sign-in-methods'])).toEqual(['password']);
  });
  it('that its person ends did not end under the page', async () => {
    server.on('DELETE', '/api/v1/session', undefined).on('POST', '/api/v1/jobs/j/stop', {});
    queries.setQueryData(SESSION_KEY, PERSON);
    await signOut();
    expect([queries.getQueryData(SESSION_KEY), hasSessionEnded()]).toEqual([null, false]);
    await api.POST('/api/v1/jobs/{job}/stop', { params: { path: { job: 'j' } }, body: {} });
    expect(server.calls.at(-1)?.headers.has('X-Berth-CSRF')).toBe(false);
  });
  it('is a fault where a part stands outside of it', () => {
    const root = createRoot(document.createElement('div'), { onUncaughtError: () => undefined });
    const Outside = () => (useSession(), null);
    expect(() => act(() => root.render(<Outside />))).toThrow('useSession outside of a session');
  });
});
