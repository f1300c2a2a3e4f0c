/** Where a page of submission begins: a kept draft, another job, a template, or the first example. */

import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query';

import { api, take } from '@/api/client';
import { usePools, useQueueNames } from '@/api/fleet';

import { findDraft, type Draft } from './draft';
import { HELLO } from './samples';
import { isRecord, writeSpec, type Plain } from './spec';

/** Names are fetched in one page each; a tenant with more types the rest. */
const NAMES_MAX = 200;
const SOUGHT_MAX = 50;

interface Origin {
  kind: 'new' | 'job' | 'template';
  id: string;
  name: string;
  tenant: string;
  /** Its spec as stored, to tell what differs. */
  spec: Record<string, Plain> | null;
}

export interface Beginning {
  text: string;
  /** The text as it would be without a draft. */
  fresh: string;
  tenant: string;
  origin: Origin;
  draft: Draft | null;
}

export function sourceOf(search: URLSearchParams): string {
  const job = search.get('from');
  const template = search.get('template');
  return job ? `job:${job}` : template ? `template:${template}` : '';
}

export function useBeginning(source: string, fallbackTenant: string, isOn: boolean): UseQueryResult<Beginning> {
  return useQuery({
    queryKey: ['submit-beginning', source],
    enabled: isOn,
    staleTime: Infinity,
    gcTime: 0,
    queryFn: async (): Promise<Beginning> => {
      const draft = findDraft(source);
      const [kind = '', ...rest] = source.split(':');
      const id = rest.join(':');
      if (kind === 'job') {
        const path = { params: { path: { job: id } } };
        const [job, spec] = await Promise.all([take(api.GET('/api/v1/jobs/{job}', path)), take(api.GET('/api/v1/jobs/{job}/spec', path))]);
        const stored = isRecord(spec) ? spec : {};
        const text = writeSpec(stored);
        return { text: draft?.text ?? text, fresh: text, tenant: draft?.tenant ?? job.tenant.slug, origin: { kind: 'job', id: job.id, name: job.name, tenant: job.tenant.slug, spec: stored }, draft };
      }
      if (kind === 'template') {
        const path = { params: { path: { template_id: id } } };
        const template = await take(api.GET('/api/v1/templates/{template_id}', path));
        const origin: Origin = { kind: 'template', id, name: template.title || template.name, tenant: '', spec: null };
        if (draft) return { text: draft.text, fresh: draft.text, tenant: draft.tenant, origin, draft };
        const made = await take(api.POST('/api/v1/templates/{template_id}/render', { ...path, body: { parameters: {}, name: '', queue: '', tenant: null, preview: true } }));
        const text = writeSpec(made.spec);
        return { text, fresh: text, tenant: template.tenant?.slug ?? fallbackTenant, origin, draft: null };
      }
      return { text: draft?.text ?? HELLO, fresh: HELLO, tenant: draft?.tenant ?? fallbackTenant, origin: { kind: 'new', id: '', name: '', tenant: '', spec: null }, draft };
    },
  });
}

interface Named {
  name: string;
  /** How a volume of another tenant is named. */
  mount_as?: string;
}

/** The same name may stand there as the tenant's own and as one that all share. */
function names(rows: readonly Named[] | undefined): string[] {
  return [...new Set((rows ?? []).map((row) => row.mount_as ?? row.name))];
}

/** Names that have this in them, where not all of them were read; null where all are known. */
export function useSought(kind: 'images' | 'volumes', tenant: string, text: string, isOn: boolean): string[] | null {
  const sought = useQuery({
    queryKey: [kind, 'names', tenant, text],
    enabled: isOn && text !== '',
    staleTime: 60_000,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      const query = { limit: SOUGHT_MAX, q: text, ...(tenant ? { tenant } : {}) };
      if (kind === 'images') return names((await take(api.GET('/api/v1/images', { params: { query }, signal }))).items);
      return names((await take(api.GET('/api/v1/volumes', { params: { query }, signal }))).items);
    },
  });
  return (isOn && sought.data) || null;
}

/** Names that may stand in a job of a tenant. What cannot be read is not offered, and may be typed all the same. */
export function useNames(tenant: string) {
  const query = { limit: NAMES_MAX, ...(tenant ? { tenant } : {}) };
  const queues = useQueueNames();
  const images = useQuery({ queryKey: ['images', 'names', tenant], staleTime: 60_000, queryFn: () => take(api.GET('/api/v1/images', { params: { query } })) });
  const volumes = useQuery({ queryKey: ['volumes', 'names', tenant], staleTime: 60_000, queryFn: () => take(api.GET('/api/v1/volumes', { params: { query } })) });
  const pools = usePools();
  const secrets = useQuery({
    queryKey: ['secrets', tenant],
    enabled: tenant !== '',
    retry: false,
    staleTime: 60_000,
    queryFn: () => take(api.GET('/api/v1/tenants/{tenant}/secrets', { params: { path: { tenant } } })),
  });
  const mine = (queues.data ?? []).filter((queue) => queue.tenant?.slug === tenant);
  return {
    tenant,
    hasMore: { images: Boolean(images.data?.next), volumes: Boolean(volumes.data?.next) },
    queues: mine.filter((queue) => !queue.is_top).map((queue) => queue.name),
    topQueue: mine.find((queue) => queue.is_top)?.name ?? '',
    images: names(images.data?.items),
    volumes: names(volumes.data?.items),
    secrets: names(secrets.data?.items),
    models: [...new Set((pools.data ?? []).map((pool) => pool.gpu_model).filter((model): model is string => Boolean(model)).map((model) => model.toLowerCase()))],
    pools: names(pools.data),
  };
}
