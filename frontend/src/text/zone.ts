/**
 * The time zone that times are shown and typed in: the one that the person prefers, else the browser's.
 *
 * It is kept in the browser beside the language, so that the first times on a page are right; what the account says comes after.
 */

import { useSyncExternalStore } from 'react';

const KEY = 'berth-time-zone';
const listeners = new Set<() => void>();
let chosen: string | undefined = typeof localStorage === 'undefined' ? undefined : known(localStorage.getItem(KEY));

/** A zone that this browser can show; undefined: its own. */
function known(zone: string | null): string | undefined {
  if (!zone) return undefined;
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return zone;
  } catch {
    return undefined;
  }
}

/** Empty: the browser's own. */
export function chooseZone(zone: string): void {
  const next = known(zone);
  if (next === undefined) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  if (next === chosen) return;
  chosen = next;
  for (const each of listeners) each();
}

export function zoneNow(): string | undefined {
  return chosen;
}

export function useZone(): string | undefined {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, zoneNow);
}

/** Names that browsers understand and do not list: UTC, and those that they still have under older ones. */
const UNLISTED = ['UTC', 'Asia/Ho_Chi_Minh', 'Asia/Kathmandu', 'Asia/Kolkata', 'Asia/Yangon', 'Europe/Kyiv'];

/** All zones that this browser can show, by name. */
export function zones(): string[] {
  return [...new Set([...Intl.supportedValuesOf('timeZone'), ...UNLISTED.filter(known)])].sort();
}

/** What a clock on the wall and a calendar beside it show. Months count from 1; `weekday` 0 is Monday. */
export interface Wall {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  weekday: number;
}

const clocks = new Map<string, Intl.DateTimeFormat>();

function clockOf(zone: string): Intl.DateTimeFormat {
  const made =
    clocks.get(zone) ?? new Intl.DateTimeFormat('en', { timeZone: zone, year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric', hourCycle: 'h23' });
  clocks.set(zone, made);
  return made;
}

export function wallOf(moment: Date, zone: string | undefined = chosen): Wall {
  if (zone === undefined) {
    return {
      year: moment.getFullYear(),
      month: moment.getMonth() + 1,
      day: moment.getDate(),
      hour: moment.getHours(),
      minute: moment.getMinutes(),
      second: moment.getSeconds(),
      weekday: (moment.getDay() + 6) % 7,
    };
  }
  const parts = new Map(clockOf(zone).formatToParts(moment).map((part) => [part.type, Number(part.value)]));
  const of = (name: Intl.DateTimeFormatPartTypes) => parts.get(name) ?? 0;
  const [year, month, day] = [of('year'), of('month'), of('day')];
  return { year, month, day, hour: of('hour'), minute: of('minute'), second: of('second'), weekday: (new Date(Date.UTC(year, month - 1, day)).getUTCDay() + 6) % 7 };
}

/** When that clock shows this. Days and months may be counted past their ends; a time that a change of clocks leaves out is the next. */
export function atWall(year: number, month: number, day: number, hour = 0, minute = 0, zone: string | undefined = chosen): Date {
  if (zone === undefined) return new Date(year, month - 1, day, hour, minute);
  const wanted = Date.UTC(year, month - 1, day, hour, minute);
  const ahead = (moment: number) => {
    const wall = wallOf(new Date(moment), zone);
    return Date.UTC(wall.year, wall.month - 1, wall.day, wall.hour, wall.minute, wall.second) - Math.floor(moment / 1000) * 1000;
  };
  const guess = wanted - ahead(wanted);
  const found = wanted - ahead(guess);
  // Where clocks are changed the guess and the second look differ: a time that is left out counts on from before the change.
  return new Date(ahead(found) === ahead(guess) ? found : Math.max(found, guess));
}
