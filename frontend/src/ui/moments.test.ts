/** What a local time means: one moment, none where clocks go forward over it, two where they go back over it. */

import { describe, expect, it } from 'vitest';

import { momentsOf, toLocalInput, type Moments } from './moments';

const two = (first: [string, string], second: [string, string]): Moments => ({ two: [{ iso: first[0], distance: first[1] }, { iso: second[0], distance: second[1] }] });

describe('a local time where clocks change', () => {
  it.each<[string, string, Moments]>([
    ['Europe/Berlin', '2026-03-29T01:59', { one: '2026-03-29T00:59:00.000Z' }],
    ['Europe/Berlin', '2026-03-29T02:00', { none: { before: '2026-03-29T01:59', from: '2026-03-29T02:00', to: '2026-03-29T03:00' } }],
    ['Europe/Berlin', '2026-03-29T02:59', { none: { before: '2026-03-29T01:59', from: '2026-03-29T02:00', to: '2026-03-29T03:00' } }],
    ['Europe/Berlin', '2026-03-29T03:00', { one: '2026-03-29T01:00:00.000Z' }],
    ['Europe/Berlin', '2026-10-25T01:59', { one: '2026-10-24T23:59:00.000Z' }],
    ['Europe/Berlin', '2026-10-25T02:30', two(['2026-10-25T00:30:00.000Z', '+02:00'], ['2026-10-25T01:30:00.000Z', '+01:00'])],
    ['Europe/Berlin', '2026-10-25T03:00', { one: '2026-10-25T02:00:00.000Z' }],
    ['America/New_York', '2027-03-14T02:30', { none: { before: '2027-03-14T01:59', from: '2027-03-14T02:00', to: '2027-03-14T03:00' } }],
    ['America/New_York', '2027-11-07T01:30', two(['2027-11-07T05:30:00.000Z', '-04:00'], ['2027-11-07T06:30:00.000Z', '-05:00'])],
    ['Australia/Lord_Howe', '2026-10-04T02:15', { none: { before: '2026-10-04T01:59', from: '2026-10-04T02:00', to: '2026-10-04T02:30' } }],
    ['Australia/Lord_Howe', '2027-04-04T01:45', two(['2027-04-03T14:45:00.000Z', '+11:00'], ['2027-04-03T15:15:00.000Z', '+10:30'])],
    ['Africa/Cairo', '2027-04-30T00:30', { none: { before: '2027-04-29T23:59', from: '2027-04-30T00:00', to: '2027-04-30T01:00' } }],
    ['Pacific/Apia', '2011-12-30T12:00', { none: { before: '2011-12-29T23:59', from: '2011-12-30T00:00', to: '2011-12-31T00:00' } }],
    ['UTC', '2026-03-29T02:30', { one: '2026-03-29T02:30:00.000Z' }],
    ['Asia/Shanghai', '2026-10-25T02:30', { one: '2026-10-24T18:30:00.000Z' }],
  ])('of %s at %s', (zone, text, moments) => expect(momentsOf(text, zone)).toEqual(moments));

  it.each(['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'UTC', 'Asia/Shanghai', undefined])('of %s: every moment of a year is one of those that its local time means', (zone) => {
    for (let half = 0; half < 2 * 366 * 24; half += 1) {
      const iso = new Date(Date.UTC(2027, 0, 1) + half * 1_800_000).toISOString();
      const found = momentsOf(toLocalInput(iso, zone), zone);
      expect(found && ('one' in found ? [found.one] : 'two' in found ? found.two.map((moment) => moment.iso) : [])).toContain(iso);
    }
  });
});

it('is none in a text that is no time, and no text of a time that is none', () => {
  expect([momentsOf(''), momentsOf('yesterday'), momentsOf('2026-13-01T00:00')]).toEqual([null, null, null]);
  expect([toLocalInput(''), toLocalInput('yesterday')]).toEqual(['', '']);
});
