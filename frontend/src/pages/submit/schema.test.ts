/** What the schema says of a place. */

import { describe, expect, it } from 'vitest';

import { check, choicesAt, schemasAt, type Schema } from './schema';

const SCHEMA: Schema = {
  type: 'object',
  additionalProperties: false,
  $defs: { Ask: { type: 'object', additionalProperties: false, properties: { cpu: { anyOf: [{ type: 'number', exclusiveMinimum: 0 }, { type: 'string', pattern: '^[0-9]+m$' }] } } } },
  properties: {
    name: { anyOf: [{ type: 'string', pattern: '^[a-z]+$' }, { type: 'null' }] },
    framework: { anyOf: [{ type: 'string', enum: ['none', 'jax'] }, { type: 'null' }] },
    resources: { anyOf: [{ $ref: '#/$defs/Ask' }, { type: 'null' }] },
    tags: { type: 'array', items: { type: 'string' } },
    retry: { type: 'object', required: ['limit'], properties: { limit: { type: 'integer', maximum: 19 } }, additionalProperties: false },
  },
};

describe('the schema of job files', () => {
  it('accepts what is right, and null where it may stand', () => {
    expect(check(SCHEMA, { name: 'a', framework: null, resources: { cpu: '500m' }, tags: ['x'], retry: { limit: 1 } })).toEqual([]);
  });
  it('names everything that is wrong with its place', () => {
    const found = check(SCHEMA, { name: 'A', framework: 'jex', resourcs: {}, resources: { cpu: 0, gpus: 1 }, tags: [1], retry: {} });
    expect(found.map((wrong) => [wrong.pointer, wrong.kind])).toEqual([
      ['/name', 'shape'],
      ['/framework', 'choice'],
      ['/resourcs', 'key'],
      ['/resources/cpu', 'range'],
      ['/resources/gpus', 'key'],
      ['/tags/0', 'type'],
      ['/retry', 'missing'],
    ]);
    expect(found[2]?.allowed).toEqual(['resources']);
  });
  it('finds what may stand at a path', () => {
    expect(schemasAt(SCHEMA, ['resources']).flatMap((each) => Object.keys(each.properties ?? {}))).toEqual(['cpu']);
  });
  it('names the values that may stand at a path, in its own order', () => {
    expect(choicesAt(SCHEMA, ['framework'])).toEqual(['none', 'jax']);
    expect(choicesAt(SCHEMA, ['name'])).toEqual([]);
  });
});
