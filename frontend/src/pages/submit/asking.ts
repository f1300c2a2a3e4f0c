/** The calls of this page: asking what would become of a job, why it would wait, and submitting it once. */

import { useQuery, type UseQueryResult } from '@tanstack/react-query';

import { api, newKey, send, take, type Schemas } from '@/api/client';
import { asProblem } from '@/api/problem';
import { changedParts } from '@/api/rerun';

import { isRecord, type Plain } from './spec';

export type Plan = Schemas['PlanOut'];
export type Option = Schemas['OptionOut'];

/** A plan goes stale by itself: others submit and end meanwhile. */
const FRESH_MS = 15_000;
const AGAIN_MS = 45_000;

export function address(tenant: string, more: Record<string, string> = {}): string {
  const query = new URLSearchParams({ ...(tenant ? { tenant } : {}), ...more });
  return `/api/v1/jobs?${query.toString()}`;
}

/** What the server would do with this text now. Nothing is stored by asking, so the call carries no key. */
export function usePlan({ text, tenant, reason, isReady }: { text: string; tenant: string; reason: string; isReady: boolean }): UseQueryResult<Plan> {
  return useQuery({
    queryKey: ['plan', tenant, reason, text],
    enabled: isReady,
    staleTime: FRESH_MS,
    gcTime: 60_000,
    refetchInterval: (query) => (query.state.data ? AGAIN_MS : false),
    queryFn: async ({ signal }): Promise<Plan> => {
      const response = await send('POST', address(tenant, { dry_run: 'true', forecast: 'true', ...(reason ? { priority_reason: reason } : {}) }), {
        body: text,
        headers: { 'Content-Type': 'application/yaml' },
        signal,
      });
      return (await response.json()) as Plan;
    },
  });
}

/** Why a job that would not start at once would wait: a pass of the scheduler with it. */
export function useWhy({ plan, tenant }: { plan: Plan | undefined; tenant: string }): UseQueryResult<string> {
  const asked = plan?.forecast?.options.find((option) => option.size === 'asked');
  return useQuery({
    queryKey: ['why', tenant, plan?.plan],
    enabled: plan !== undefined && plan.depends_on.length === 0 && asked !== undefined && !asked.starts_now,
    staleTime: FRESH_MS,
    gcTime: 60_000,
    retry: 1,
    queryFn: async ({ signal }): Promise<string> => {
      const found = await take(api.POST('/api/v1/what-if', { signal, body: { ...(tenant ? { tenant } : {}), changes: [{ submit: { spec: { ...plan?.spec, priority: plan?.priority } } }] } }));
      const mine = found.waits.jobs.find((entry) => entry.job.id.startsWith('/changes/0/'));
      const words = mine?.reason?.text;
      return typeof words === 'string' ? words : '';
    },
  });
}

export interface Attempt {
  /** The text that it is of: another text or tenant is another attempt, with another key. */
  text: string;
  tenant: string;
  body: string;
  type: 'application/yaml' | 'application/json';
  url: string;
  key: string;
}

/** A job that this one is a change of. */
interface Older {
  id: string;
  tenant: string;
  spec: Record<string, Plain>;
}

/** The attempt to send for this text: the one before, if it may have arrived without our knowing. */
export async function attemptFor(ask: { text: string; tenant: string; reason: string; plan: Plan | undefined; older: Older | null }, unsure: Attempt | null): Promise<Attempt> {
  const { text, tenant, reason, plan, older } = ask;
  if (unsure && unsure.text === text && unsure.tenant === tenant) return unsure;
  const again = older && plan && reason === '' && older.tenant === tenant ? await asRerun(older, plan) : null;
  const url = address(tenant, { ...(reason ? { priority_reason: reason } : {}), ...(plan?.plan ? { plan: plan.plan } : {}) });
  return { text, tenant, body: text, type: 'application/yaml', url, key: newKey(), ...again };
}

/**
 * The same job as a rerun with changes, so that it is known what it came from. Null where that would not make just this job, or is not
 * allowed: then it is submitted by itself.
 */
async function asRerun(older: Older, plan: Plan): Promise<{ body: string; type: 'application/json'; url: string } | null> {
  const path = `/api/v1/jobs/${encodeURIComponent(older.id)}/rerun`;
  const body = JSON.stringify({ changes: changedParts(older.spec, plan.spec) });
  try {
    const response = await send('POST', `${path}?dry_run=true`, { body, headers: { 'Content-Type': 'application/json' } });
    const shown = (await response.json()) as Plan;
    if (shown.spec_digest !== plan.spec_digest || !shown.plan) return null;
    return { body, type: 'application/json', url: `${path}?plan=${shown.plan}` };
  } catch (error) {
    if (isUnsure(error)) throw error; // Nothing was made yet: say so, and let it be tried again.
    return null;
  }
}

export interface Difference {
  path: string;
  older: Plain | undefined;
  newer: Plain | undefined;
}

/** Where two stored specs differ, mappings part by part. */
export function differences(older: Record<string, Plain>, newer: Record<string, Plain>, prefix = ''): Difference[] {
  return [...new Set([...Object.keys(older), ...Object.keys(newer)])].flatMap((key) => {
    const [before, after] = [older[key], newer[key]];
    if (same(before, after)) return [];
    const path = `${prefix}${key}`;
    return isRecord(before) && isRecord(after) ? differences(before, after, `${path}.`) : [{ path, older: before, newer: after }];
  });
}

function same(one: Plain | undefined, other: Plain | undefined): boolean {
  if (isRecord(one) && isRecord(other)) return [...new Set([...Object.keys(one), ...Object.keys(other)])].every((key) => same(one[key], other[key]));
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The job made. Sent twice with the same key, it is the same job. */
export async function submit(attempt: Attempt): Promise<{ id: string; name: string }> {
  const response = await send('POST', attempt.url, { body: attempt.body, headers: { 'Content-Type': attempt.type, 'Idempotency-Key': attempt.key } });
  return (await response.json()) as { id: string; name: string };
}

/** Whether it is not known if a failed attempt made a job. */
export function isUnsure(error: unknown): boolean {
  const status = asProblem(error).status;
  return status === 0 || status >= 500;
}
