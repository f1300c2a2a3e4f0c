/** The filters of the list as the URL says them, and as the API and the command line take them. */

import { JOB_STATES, type JobState } from '@/ui/Status';

export const KINDS = ['batch', 'build', 'transfer'] as const;
export const SORTS = ['created', 'finished', 'priority'] as const;
export const SPANS = ['1h', '24h', '7d', '30d'] as const;
export type Kind = (typeof KINDS)[number];
export type Sort = (typeof SORTS)[number];

export interface Filters {
  state: JobState[];
  mine: boolean;
  tenant: string;
  queue: string;
  user: string;
  tag: string[];
  label: string[];
  q: string;
  /** A span back from now (`24h`), or a time. */
  since: string;
  until: string;
  sort: Sort;
  kind: Kind | '';
  /** Children of this array. */
  parent: string;
}

/** What the API is asked: the same names, spans turned into times. */
export interface JobQuery {
  state?: JobState[];
  mine?: boolean;
  tenant?: string;
  queue?: string;
  user?: string;
  tag?: string[];
  label?: string[];
  q?: string;
  since?: string;
  until?: string;
  sort?: Sort;
  kind?: Kind;
  parent?: string;
}

const TEXTS = ['tenant', 'queue', 'user', 'q', 'since', 'until', 'parent'] as const;
const LISTS = ['tag', 'label'] as const;
const MS = { h: 3_600_000, d: 86_400_000 } as const;

export function readFilters(search: URLSearchParams): Filters {
  const states = search.getAll('state').flatMap((text) => text.split(','));
  const kind = KINDS.find((each) => each === search.get('kind'));
  const found: Filters = {
    state: JOB_STATES.filter((state) => states.includes(state)),
    mine: ['1', 'true', 'yes'].includes(search.get('mine') ?? ''),
    tenant: '',
    queue: '',
    user: '',
    tag: [],
    label: [],
    q: '',
    since: '',
    until: '',
    sort: SORTS.find((each) => each === search.get('sort')) ?? 'created',
    kind: kind ?? '',
    parent: '',
  };
  for (const name of TEXTS) found[name] = search.get(name) ?? '';
  for (const name of LISTS) found[name] = [...new Set(search.getAll(name).filter(Boolean))];
  return found;
}

/** Always in the same order, so that equal filters are equal addresses. */
export function writeFilters(filters: Filters): URLSearchParams {
  const search = new URLSearchParams();
  for (const state of JOB_STATES) if (filters.state.includes(state)) search.append('state', state);
  if (filters.mine) search.set('mine', 'true');
  if (filters.kind) search.set('kind', filters.kind);
  for (const name of TEXTS) if (filters[name]) search.set(name, filters[name]);
  for (const name of LISTS) for (const value of filters[name]) search.append(name, value);
  if (filters.sort !== 'created') search.set('sort', filters.sort);
  return search;
}

/** Whether anything narrows the list; the order does not. */
export function isFiltered(filters: Filters): boolean {
  const search = writeFilters(filters);
  search.delete('sort');
  return search.size > 0;
}

/** Whether the kept counts by state say what the list would show: they know tenants and queues, no other filter. */
export function areCounted(filters: Filters): boolean {
  const search = writeFilters(filters);
  for (const name of ['sort', 'state', 'tenant', 'queue']) search.delete(name);
  return search.size === 0;
}

function timeOf(text: string, now: number): string | undefined {
  const span = /^(\d{1,4})([hd])$/.exec(text);
  if (span) return new Date(now - Number(span[1]) * MS[span[2] as 'h' | 'd']).toISOString();
  return text || undefined;
}

/** A filter's time for people: a moment in their zone; a span or what cannot be read as it stands. */
export function timeText(text: string, show: (iso: string) => string): string {
  return /^\d{4}-/.test(text) && !Number.isNaN(Date.parse(text)) ? show(text) : text;
}

export function toQuery(filters: Filters, now: number): JobQuery {
  return {
    state: filters.state.length > 0 ? filters.state : undefined,
    mine: filters.mine || undefined,
    tenant: filters.tenant || undefined,
    queue: filters.queue || undefined,
    user: filters.user || undefined,
    tag: filters.tag.length > 0 ? filters.tag : undefined,
    label: filters.label.length > 0 ? filters.label : undefined,
    q: filters.q || undefined,
    since: timeOf(filters.since, now),
    until: timeOf(filters.until, now),
    sort: filters.sort === 'created' ? undefined : filters.sort,
    kind: filters.kind || undefined,
    parent: filters.parent || undefined,
  };
}

/** The query as pairs, for an address outside the portal. */
export function toPairs(query: JobQuery): [string, string][] {
  return Object.entries(query).flatMap(([name, value]): [string, string][] => {
    if (value === undefined) return [];
    return Array.isArray(value) ? value.map((each): [string, string] => [name, each]) : [[name, String(value)]];
  });
}
