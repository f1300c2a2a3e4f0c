/** Prices of a pool by time. */

import { expect, it } from 'vitest';

import { byPool, micros, type Price } from './ledger';

const price = (id: string, state: Price['state'], effective_at: string): Price => ({ id, state, effective_at, created_at: effective_at, created_by: null, currency: 'EUR', micros_per_hour: 1, resource: 'gpu_millis', pool: { id: 'p', name: 'a100', cluster: 'local' } });

it('keeps what holds, what comes and what was apart', () => {
  const [pool] = byPool([price('a', 'past', '2026-01-01'), price('b', 'now', '2026-03-01'), price('c', 'past', '2026-02-01'), price('d', 'planned', '2026-05-01'), price('e', 'planned', '2026-04-01')]);
  expect(pool?.now.gpu_millis?.id).toBe('b');
  expect(pool?.past.map((one) => one.id)).toEqual(['c', 'a']);
  expect(pool?.planned.map((one) => one.id)).toEqual(['e', 'd']);
});

it('reads money', () => {
  expect(micros(2.35)).toBe(2_350_000);
  expect(micros('')).toBeUndefined();
});
