/** What tasks asked for, from the spec as it is stored. */

import { describe, expect, it } from 'vitest';

import { askedOf, gpusOf } from './asked';

const SPEC = { roles: { worker: { resources: { cpu: 4, memory: 1024, gpu: 'A100:2' } }, server: { resources: { cpu: '500m', memory: 1024 } } } };
const ALL = new Set(['worker', 'server']);

describe('what was asked', () => {
  it('is one line where all roles ask for the same, else one for each', () => {
    expect(askedOf(SPEC, 'memory_bytes', ALL)).toEqual([{ role: null, value: 1024 }]);
    expect(askedOf(SPEC, 'cpu_millis', ALL)).toEqual([{ role: 'worker', value: 4000 }, { role: 'server', value: 500 }]);
    expect(askedOf(SPEC, 'cpu_millis', new Set(['server']))).toEqual([{ role: null, value: 500 }]);
  });
  it('is nothing for what nobody asks for, and for a spec that says nothing', () => {
    expect(askedOf(SPEC, 'processes', ALL)).toEqual([]);
    expect(askedOf({}, 'cpu_millis', ALL)).toEqual([]);
  });
  it('counts GPUs where all that are shown have as many', () => {
    expect(gpusOf(SPEC, new Set(['worker']))).toBe(2);
    expect(gpusOf(SPEC, ALL)).toBeNull();
    expect(gpusOf({ roles: { worker: { resources: { gpu: '0.5' } } } }, ALL)).toBe(0.5);
  });
});
