/** Where bookings stand in a calendar, and what they leave free. All days are the reader's own, also those of 23 or 25 hours. */

import type { Schemas } from '@/api/client';
import { atWall, wallOf } from '@/text/zone';

export type Booking = Schemas['BookingOut'];

export interface Bar {
  booking: Booking;
  /** Shares of the row, from 0 to 1. */
  left: number;
  width: number;
  lane: number;
  /** It goes on before or after what is shown. */
  isCutLeft: boolean;
  isCutRight: boolean;
}

export function dayOf(moment: Date, offset = 0): Date {
  const { year, month, day } = wallOf(moment);
  return atWall(year, month, day + offset);
}

/** The Monday on or before. */
export function weekOf(moment: Date): Date {
  return dayOf(moment, -wallOf(moment).weekday);
}

/** The Mondays of all weeks that have a day of the month. */
export function weeksOfMonth(moment: Date): Date[] {
  const weeks: Date[] = [];
  const { year, month } = wallOf(moment);
  const end = atWall(year, month + 1, 1);
  for (let week = weekOf(atWall(year, month, 1)); week < end; week = dayOf(week, 7)) weeks.push(week);
  return weeks;
}

export function dateText(day: Date): string {
  const at = wallOf(day);
  return `${at.year}-${String(at.month).padStart(2, '0')}-${String(at.day).padStart(2, '0')}`;
}

/** Today where the text is no date. */
export function readDate(text: string | null, now: Date): Date {
  const found = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text ?? '');
  const day = found ? atWall(Number(found[1]), Number(found[2]), Number(found[3])) : now;
  return dayOf(Number.isNaN(day.getTime()) ? now : day);
}

/** When it really ends: one that was given back early takes nothing any more. */
function endOf(booking: Booking): number {
  return Math.min(Date.parse(booking.ends_at), booking.released_at ? Math.max(Date.parse(booking.released_at), Date.parse(booking.starts_at)) : Number.POSITIVE_INFINITY);
}

/** The bookings of one week, each in the first lane where it fits. */
export function barsOf(bookings: readonly Booking[], week: Date): Bar[] {
  const edges = Array.from({ length: 8 }, (_, index) => dayOf(week, index).getTime());
  const [start, end] = [edges[0] ?? 0, edges[7] ?? 0];
  const place = (moment: number) => {
    if (moment <= start) return 0;
    if (moment >= end) return 1;
    const day = edges.findIndex((edge, index) => index < 7 && moment >= edge && moment < (edges[index + 1] ?? 0));
    const [from, to] = [edges[day] ?? 0, edges[day + 1] ?? 1];
    return (day + (moment - from) / (to - from)) / 7;
  };
  const lanes: number[] = [];
  return bookings
    .map((booking) => ({ booking, from: Date.parse(booking.starts_at), until: Date.parse(booking.ends_at) }))
    .filter(({ from, until }) => from < end && until > start)
    .sort((a, b) => a.from - b.from || b.until - a.until || a.booking.id.localeCompare(b.booking.id))
    .map(({ booking, from, until }) => {
      const left = place(from);
      const width = Math.max(place(until) - left, 0.012);
      let lane = lanes.findIndex((free) => free <= left + 1e-9);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = left + width;
      return { booking, left, width, lane, isCutLeft: from < start, isCutRight: until > end };
    });
}

/** The least that is free of a pool at any time of the window, as far as the bookings known here say. */
export function freeIn(bookings: readonly Booking[], pool: string, total: number, from: number, until: number): number {
  const held = bookings.filter((booking) => booking.state === 'held' && booking.pool?.id === pool && Date.parse(booking.starts_at) < until && endOf(booking) > from);
  const moments = [from, ...held.map((booking) => Date.parse(booking.starts_at)).filter((moment) => moment > from)];
  let most = 0;
  for (const moment of moments) {
    let sum = 0;
    for (const booking of held) if (Date.parse(booking.starts_at) <= moment && endOf(booking) > moment) sum += booking.gpu_millis;
    most = Math.max(most, sum);
  }
  return total - most;
}
