/** The calls of this page: asking what would become of a job, why it would wait, and submitting it once. */

import { useQuery, type UseQueryResult } from '@tanstack/react-query';

import { api, newKey, send, take, type Schemas } from '@/api/client';
import { asProblem } from '@/api/problem';

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
      const found = await take(api.POST('/api/v1/what-if', { signal, body: { ...(tenant ? { tenant } : {}), changes: [{ submit: { spec: plan?.spec ?? {} } }] } }));
      const mine = found.waits.jobs.find((entry) => entry.job.id.startsWith('/changes/0/'));
      const words = mine?.reason?.text;
      return typeof words === 'string' ? words : '';
    },
  });
}

export interface Attempt {
  /** What is sent; another text, tenant or plan is another attempt, with another key. */
  body: string;
  url: string;
  key: string;
}

/** The attempt to send for this text: the one before, if it may have arrived without our knowing. */
export function attemptFor(text: string, tenant: string, reason: string, plan: string | undefined, unsure: Attempt | null): Attempt {
  const bare = address(tenant, reason ? { priority_reason: reason } : {});
  if (unsure && unsure.body === text && unsure.url.startsWith(bare)) return unsure;
  return { body: text, url: plan ? `${bare}${bare.endsWith('?') ? '' : '&'}plan=${plan}` : bare, key: newKey() };
}

/** The job made. Sent twice with the same key, it is the same job. */
export async function submit(attempt: Attempt): Promise<{ id: string; name: string }> {
  const response = await send('POST', attempt.url, { body: attempt.body, headers: { 'Content-Type': 'application/yaml', 'Idempotency-Key': attempt.key } });
  return (await response.json()) as { id: string; name: string };
}

/** Whether it is not known if a failed attempt made a job. */
export function isUnsure(error: unknown): boolean {
  const status = asProblem(error).status;
  return status === 0 || status >= 500;
}
