/** Blanks that a job names. */

import { describe, expect, it } from 'vitest';

import { newBlank, placesIn, sent } from './blanks';

describe('blanks of a template', () => {
  it('are found in the job, each once', () => {
    expect(placesIn('a: ${{ parameters.x }} ${{parameters.y}}\nb: "${{ parameters.x }}"')).toEqual(['x', 'y']);
  });
  it('are sent with their kinds and without what is empty', () => {
    expect(sent({ ...newBlank('n'), type: 'integer', default: '2', minimum: '1' })).toEqual({ name: 'n', type: 'integer', required: false, default: 2, minimum: 1 });
    expect(sent({ ...newBlank('t'), default: '2' })).toEqual({ name: 't', type: 'string', required: false, default: '2' });
    expect(sent({ ...newBlank('b'), type: 'boolean', default: 'true', minimum: '1' })).toEqual({ name: 'b', type: 'boolean', required: false, default: true });
    expect(sent({ ...newBlank('w'), type: 'number', default: 'x' }).default).toBe('x');
  });
});
