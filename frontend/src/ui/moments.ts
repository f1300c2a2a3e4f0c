/**
 * Between the API's times (UTC, ISO) and what `<input type="datetime-local">` holds: the reader's own time to the minute.
 *
 * Where clocks change, such a time may be no moment, or two: `momentsOf` says so, and nothing here decides for the reader.
 */

import { wallOf, zoneNow } from '@/text/zone';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const TO_MINUTE = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/;
const two = (value: number) => String(value).padStart(2, '0');

/** A moment that a local time may mean, and how far the clock is ahead of UTC then: `+02:00`. */
export interface Moment {
  iso: string;
  distance: string;
}

/** Clocks go forward from one local time to the other; `before` is the last minute that they show before. */
export interface Gap {
  before: string;
  from: string;
  to: string;
}

export type Moments = { one: string } | { two: readonly [Moment, Moment] } | { none: Gap };

/** Empty: the text is no time. */
export function toLocalInput(iso: string, zone = zoneNow()): string {
  const moment = TO_MINUTE.test(iso) ? Date.parse(iso) : Number.NaN;
  return Number.isNaN(moment) ? '' : toMinute(moment, zone);
}

/** All moments at which clocks of the zone show this. Null: nothing was typed, or no time. */
export function momentsOf(text: string, zone = zoneNow()): Moments | null {
  const [typed] = TO_MINUTE.exec(text) ?? [];
  const wanted = typed === undefined ? Number.NaN : Date.parse(`${typed}:00Z`);
  if (Number.isNaN(wanted)) return null;
  const ahead = (moment: number) => Date.parse(`${clock(moment, zone)}Z`) - moment;
  // Clocks change at most once in these two days, so no other distance from UTC can be that of the moment.
  const [older, newer] = [ahead(wanted - DAY_MS), ahead(wanted + DAY_MS)];
  const [first, second] = [...new Set([older, newer])].filter((distance) => ahead(wanted - distance) === distance);
  const moment = (distance: number): Moment => ({ iso: new Date(wanted - distance).toISOString(), distance: distanceText(distance) });
  if (first !== undefined && second !== undefined) return { two: [moment(first), moment(second)] };
  if (first !== undefined) return { one: moment(first).iso };
  let [last, change] = [wanted - newer, wanted - older];
  while (change - last > 1000) {
    const middle = Math.floor((last + change) / 2000) * 1000;
    if (ahead(middle) === older) last = middle;
    else change = middle;
  }
  return { none: { before: toMinute(change - MINUTE_MS, zone), from: toMinute(change + older, 'UTC'), to: toMinute(change, zone) } };
}

/** To the second, with four digits of the year, as `Date.parse` reads it: `2027-03-28T02:30:00`. */
function clock(moment: number, zone: string | undefined): string {
  const at = wallOf(new Date(moment), zone);
  return `${String(at.year).padStart(4, '0')}-${two(at.month)}-${two(at.day)}T${two(at.hour)}:${two(at.minute)}:${two(at.second)}`;
}

function toMinute(moment: number, zone: string | undefined): string {
  return clock(moment, zone).slice(0, 'yyyy-mm-ddThh:mm'.length);
}

function distanceText(distance: number): string {
  const minutes = Math.round(Math.abs(distance) / MINUTE_MS);
  return `${distance < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}
