/** The window of time of a usage page, as it stands in the address: `range=week`, or `since` and `until` as days. */

import { atWall, wallOf } from '@/text/zone';

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
  if (name === 'own') return { name, since: dayStart(search.get('since')), until: dayStart(search.get('until'), 1) };
  const today = wallOf(new Date(now));
  return { name, since: atWall(today.year, today.month, today.day - (name === 'day' ? 0 : DAYS[name] - 1)).toISOString() };
}

function dayStart(day: string | null, offset = 0): string | undefined {
  const found = /^(\d{4})-(\d{2})-(\d{2})$/.exec(day ?? '');
  return found ? atWall(Number(found[1]), Number(found[2]), Number(found[3]) + offset).toISOString() : undefined;
}
