/** Who is signed in, what they may do, and the way out. */

import { queryOptions } from '@tanstack/react-query';
import { createContext, use, useEffect, type ReactNode } from 'react';

import { api, onSignedOut, setCsrf, take, type Schemas } from './client';
import { live } from './live';
import { asProblem } from './problem';
import { queries } from './query';

export type Who = Pick<Schemas['WhoOut'], 'user' | 'tenants'>;
export const ROLES = ['viewer', 'member', 'manager'] as const;
export type Role = (typeof ROLES)[number];

/** A session as the API tells it: `user` is the answer of whoami. */
export interface SessionState {
  who: Who;
  isOperator: boolean;
  /** Whether the person holds at least this role in the tenant (by slug); in any tenant when it is left out. */
  may: (role: Role, tenant?: string) => boolean;
  /** Whether a feature of the installation is switched on. */
  has: (feature: string) => boolean;
}

const RANK: Record<string, number> = { viewer: 1, member: 2, manager: 3 };
const SessionContext = createContext<SessionState | null>(null);
export const SESSION_KEY = ['session'] as const;
const KNOWN_KEY = 'berth-signed-in';

/** Whether a session ended under this page, and not by its own sign-out. */
let hasEnded = false;
export const hasSessionEnded = () => hasEnded;

/** The session, or null when nobody is signed in. */
export const sessionQuery = queryOptions({
  queryKey: SESSION_KEY,
  staleTime: 60_000,
  queryFn: async (): Promise<Who | null> => {
    try {
      const session = await take(api.GET('/api/v1/session'));
      setCsrf(session.csrf);
      localStorage.setItem(KNOWN_KEY, 'yes');
      return session;
    } catch (error) {
      if (asProblem(error).status !== 401) throw error;
      localStorage.removeItem(KNOWN_KEY);
      return null;
    }
  },
});

/** By what one may sign in here: a password, a directory's, a provider. */
export const methodsQuery = queryOptions({ queryKey: ['sign-in-methods'], staleTime: 60_000, queryFn: () => take(api.GET('/api/v1/sign-in-methods')) });

/** The names of the features that are switched on for the person. */
export const featuresQuery = queryOptions({
  queryKey: ['features', 'mine'],
  staleTime: 60_000,
  queryFn: async () => (await take(api.GET('/api/v1/features'))).items.filter((feature) => feature.enabled).map((feature) => feature.name),
});

/** Whether somebody was signed in here when this browser last asked. */
export function isLikelySignedIn(): boolean {
  return localStorage.getItem(KNOWN_KEY) !== null;
}

export function SessionProvider({ who, features, children }: { who: Who; features: readonly string[] | null; children: ReactNode }) {
  useEffect(() => {
    const leave = () => {
      hasEnded = true;
      live.close();
      begin(null);
    };
    onSignedOut(leave);
    live.onSignedOut = leave;
    return () => onSignedOut(() => undefined);
  }, []);
  const roles = new Map(who.tenants.map((tenant) => [tenant.slug, RANK[tenant.role] ?? 0]));
  const state: SessionState = {
    who,
    isOperator: who.user.is_operator,
    may: (role, tenant) => {
      const least = RANK[role] ?? 9;
      return tenant === undefined ? [...roles.values()].some((rank) => rank >= least) : (roles.get(tenant) ?? 0) >= least;
    },
    has: (feature) => features === null || features.includes(feature),
  };
  return <SessionContext value={state}>{children}</SessionContext>;
}

export function useSession(): SessionState {
  const session = use(SessionContext);
  if (!session) throw new Error('useSession outside of a session');
  return session;
}

/** Forget what the last person saw; whoever shows the session is told of the new one. */
function begin(who: Who | null): void {
  queries.removeQueries({ predicate: (query) => query.queryKey[0] !== SESSION_KEY[0] && query.queryKey[0] !== 'info' });
  queries.setQueryData(SESSION_KEY, who);
}

export async function signIn(body: { name: string; password: string; code?: string }): Promise<void> {
  const session = await take(api.POST('/api/v1/session', { body }));
  setCsrf(session.csrf);
  hasEnded = false;
  begin(session);
}

export async function signOut(): Promise<void> {
  await api.DELETE('/api/v1/session');
  hasEnded = false;
  setCsrf('');
  live.close();
  begin(null);
}
