/** The window of time of a usage page, as it stands in the address: `range=week`, or `since` and `until` as days. */

const DAY_MS = 86_400_000;
export const RANGES = ['day', 'week', 'month', 'quarter', 'ever', 'own'] as const;
export type RangeName = (typeof RANGES)[number];
const DAYS: Record<'week' | 'month' | 'quarter', number> = { week: 7, month: 30, quarter: 90 };

export interface Window {
  name: RangeName;
  since?: string;
  until?: string;
}

/** Windows begin at midnight of the reader, so that they do not change from one look to the next. */
export function windowOf(search: URLSearchParams, now: number): Window {
  const name = RANGES.find((one) => one === search.get('range')) ?? 'month';
  if (name === 'ever') return { name };
  if (name === 'own') return { name, since: dayStart(search.get('since')), until: dayEnd(search.get('until')) };
  const today = new Date(now);
  today.setHours(0, 0, 0, 0);
  const since = name === 'day' ? today.getTime() : today.getTime() - (DAYS[name] - 1) * DAY_MS;
  return { name, since: new Date(since).toISOString() };
}

function dayStart(day: string | null): string | undefined {
  const at = day ? new Date(`${day}T00:00:00`) : null;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined;
}

function dayEnd(day: string | null): string | undefined {
  const start = dayStart(day);
  return start ? new Date(Date.parse(start) + DAY_MS).toISOString() : undefined;
}
