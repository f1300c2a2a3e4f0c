/** Weeks, days and what is free. */

import { expect, test } from 'vitest';

import { barsOf, freeIn, readDate, weekOf, weeksOfMonth, type Booking } from './calendar';

function booking(id: string, from: Date, until: Date, gpus = 2): Booking {
  return {
    id,
    state: 'held',
    tenant: { id: 't', slug: 't', name: 't' },
    queue: { id: 'q', name: 'q' },
    pool: { id: 'p', name: 'a100', cluster: 'local' },
    gpu_millis: gpus * 1000,
    starts_at: from.toISOString(),
    ends_at: until.toISOString(),
    comment: '',
    created_at: from.toISOString(),
    created_by: null,
    claimed_at: null,
    released_at: null,
  };
}

const monday = new Date(2026, 10, 23);
const at = (day: number, hour: number) => new Date(2026, 10, 23 + day, hour);

test('a week begins on Monday, and a month has all weeks with a day of it', () => {
  expect(weekOf(new Date(2026, 10, 29, 23))).toEqual(monday);
  expect(weeksOfMonth(new Date(2026, 10, 15)).map((week) => week.getDate())).toEqual([26, 2, 9, 16, 23, 30]);
  expect(readDate('rubbish', at(1, 5))).toEqual(at(1, 0));
});

test('bars that overlap get lanes of their own, and are cut at the edges', () => {
  const bars = barsOf([booking('b', at(1, 0), at(3, 0)), booking('a', at(-2, 0), at(2, 0)), booking('c', at(3, 0), at(9, 0)), booking('gone', at(-4, 0), at(-3, 0))], monday);
  expect(bars.map((bar) => [bar.booking.id, bar.lane, bar.isCutLeft, bar.isCutRight])).toEqual([
    ['a', 0, true, false],
    ['b', 1, false, false],
    ['c', 0, false, true],
  ]);
  expect(bars[1]?.left).toBeCloseTo(1 / 7);
  expect(bars[1]?.width).toBeCloseTo(2 / 7);
});

test('what is free is what is left at the worst time', () => {
  const all = [booking('a', at(0, 0), at(1, 0), 3), booking('b', at(0, 12), at(2, 0), 4)];
  expect(freeIn(all, 'p', 8000, at(0, 0).getTime(), at(0, 12).getTime())).toBe(5000);
  expect(freeIn(all, 'p', 8000, at(0, 0).getTime(), at(2, 0).getTime())).toBe(1000);
  expect(freeIn(all, 'other', 8000, at(0, 0).getTime(), at(2, 0).getTime())).toBe(8000);
});
