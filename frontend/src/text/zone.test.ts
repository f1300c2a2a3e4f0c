/** Times in the zone that somebody prefers, whatever the browser's own is. */

import { afterEach, beforeAll, describe, expect, it } from 'vitest';

import { momentsOf, toLocalInput } from '@/ui/moments';

import { makeFormat } from './format';
import { atWall, chooseZone, wallOf, zoneNow } from './zone';

const kept = new Map<string, string>();

beforeAll(() => {
  Object.defineProperty(globalThis, 'localStorage', {
    value: { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) },
  });
});
afterEach(() => chooseZone(''));

describe('the zone of the preferences', () => {
  it('is what every format of a time shows, with its name', () => {
    const shanghai = makeFormat('en', 'Asia/Shanghai');
    expect(shanghai.time('2026-11-22T17:30:00Z')).toBe('Nov 23, 2026, 01:30:00');
    expect(shanghai.day('2026-11-22T17:30:00Z')).toBe('Nov 23, 2026');
    expect(shanghai.tick(Date.UTC(2026, 10, 22, 17, 30) / 1000, 3600)).toBe('01:30');
    expect(shanghai.weekday(new Date('2026-11-22T17:30:00Z'))).toContain('Mon');
    expect(shanghai.zoneToday).toBe('GMT+8');
    expect(makeFormat('en', 'America/New_York').time('2026-11-22T17:30:00Z')).toBe('Nov 22, 2026, 12:30:00');
  });

  it('is that in which times are typed', () => {
    chooseZone('Asia/Kolkata');
    expect(toLocalInput('2026-11-22T17:30:00Z')).toBe('2026-11-22T23:00');
    expect(momentsOf('2026-11-22T23:00')).toEqual({ one: '2026-11-22T17:30:00.000Z' });
  });

  it('is kept, and one that does not exist is the browser’s', () => {
    chooseZone('Asia/Tokyo');
    expect([zoneNow(), kept.get('berth-time-zone')]).toEqual(['Asia/Tokyo', 'Asia/Tokyo']);
    chooseZone('Mars/Olympus');
    expect([zoneNow(), kept.size]).toEqual([undefined, 0]);
  });
});

describe('a wall clock', () => {
  it.each(['Europe/Berlin', 'America/New_York', 'Asia/Kathmandu', 'Australia/Lord_Howe', 'UTC'])('reads back what was set in %s, through the whole year', (zone) => {
    for (let hour = 0; hour < 366 * 24; hour += 1) {
      const moment = new Date(Date.UTC(2026, 0, 1, hour));
      const wall = wallOf(moment, zone);
      const back = wallOf(atWall(wall.year, wall.month, wall.day, wall.hour, wall.minute, zone), zone);
      expect(back).toEqual(wall);
    }
  });

  it('counts days and months past their ends, and goes on where clocks leave an hour out', () => {
    expect(atWall(2026, 12, 32, 0, 0, 'UTC').toISOString()).toBe('2027-01-01T00:00:00.000Z');
    expect(wallOf(new Date('2026-11-22T00:00:00Z'), 'UTC').weekday).toBe(6);
    expect(atWall(2026, 3, 29, 2, 30, 'Europe/Berlin').toISOString()).toBe('2026-03-29T01:30:00.000Z');
    expect(atWall(2026, 3, 29, 0, 0, 'Europe/Berlin').toISOString()).toBe('2026-03-28T23:00:00.000Z');
  });
});
