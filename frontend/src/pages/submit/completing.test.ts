/** What the editor offers at the cursor, and what it says of a key. */

import { CompletionContext } from '@codemirror/autocomplete';
import { EditorState } from '@codemirror/state';
import { describe, expect, it } from 'vitest';

import { complete, describe as explain, type Names } from './completing';
import type { Schema } from './schema';

const RESOURCES: Schema = { type: 'object', properties: { cpu: { type: 'number', description: 'Cores.', examples: [4] }, gpu: { anyOf: [{ type: 'integer' }, { type: 'string', examples: ['a100:1'] }] } } };
const SCHEMA: Schema = {
  type: 'object',
  properties: {
    name: { type: 'string', description: 'What the job is called.', examples: ['digits'] },
    framework: { anyOf: [{ type: 'string', enum: ['jax', 'mpi'] }, { type: 'null' }] },
    hold: { type: 'boolean' },
    queue: { type: 'string' },
    resources: RESOURCES,
    roles: { type: 'object', patternProperties: { '^[a-z]+$': { type: 'object', properties: { command: { type: 'string' }, resources: RESOURCES } } } },
    mounts: { type: 'array', items: { type: 'object', properties: { volume: { type: 'string' }, path: { type: 'string' } } } },
  },
};
const NAMES: Names = { queue: ['vision', 'speech'], 'mounts/*/volume': ['digits'] };

/** What is offered at the bar of a text. */
function offered(marked: string, isExplicit = false) {
  const position = marked.indexOf('‸');
  const state = EditorState.create({ doc: marked.replace('‸', '') });
  const found = complete(new CompletionContext(state, position, isExplicit), SCHEMA, NAMES);
  return found && { from: found.from, labels: found.options.map((option) => option.label), apply: Object.fromEntries(found.options.map((option) => [option.label, option.apply])), details: found.options.map((option) => option.detail), validFor: found.validFor as (text: string) => boolean };
}

describe('at the cursor', () => {
  it('keys are offered that are not there yet, with what follows them', () => {
    const found = offered('name: a\nre‸\nhold: true');
    expect(found?.labels).toEqual(['framework', 'queue', 'resources', 'roles', 'mounts']);
    expect(found?.apply).toMatchObject({ queue: 'queue: ', resources: 'resources:\n  ' });
    expect(found?.from).toBe(8);
  });
  it('keys of a role are indented as deep as they stand', () => {
    expect(offered('roles:\n  worker:\n    re‸')?.apply).toMatchObject({ command: 'command: ', resources: 'resources:\n      ' });
  });
  it('keys in braces stay on their line', () => {
    expect(offered('resources: {c‸}')?.apply).toMatchObject({ cpu: 'cpu: ' });
  });
  it('values are those of the schema, of the tenant, or examples that say so', () => {
    expect(offered('framework: j‸')?.labels).toEqual(['jax', 'mpi']);
    expect(offered('hold: ‸', true)?.labels).toEqual(['true', 'false']);
    expect(offered('queue: v‸')?.labels).toEqual(['vision', 'speech']);
    expect(offered('mounts:\n- volume: d‸')?.labels).toEqual(['digits']);
    expect(offered('name: ‸', true)).toMatchObject({ labels: ['digits'], details: ['e.g.'] });
  });
  it('nothing is offered unasked on an empty line, for a whole word, in comments, and without a schema', () => {
    expect(offered('name: a\n‸')).toBeNull();
    expect(offered('name: a\n‸', true)?.labels).toContain('queue');
    expect(offered('queue: vision‸')).toBeNull();
    expect(offered('name: a # q‸')).toBeNull();
    expect(complete(new CompletionContext(EditorState.create({ doc: 'n' }), 1, true), undefined, NAMES)).toBeNull();
  });
  it('the list closes at a word that is whole, so that Enter ends the line', () => {
    const found = offered('queue: v‸');
    expect([found?.validFor('vis'), found?.validFor('vision'), found?.validFor('vi s')]).toEqual([true, false, false]);
  });
});

describe('under the pointer', () => {
  const TEXT = 'name: a\nresources:\n  cpu: 2\nmounts:\n- volume: d\nown: 1\n';
  it('a key says what it means, with an example', () => {
    expect(explain(TEXT, 1, SCHEMA)).toEqual({ from: 0, to: 4, text: 'What the job is called.\n→ digits' });
    expect(explain(TEXT, TEXT.indexOf('cpu') + 1, SCHEMA)?.text).toBe('Cores.\n→ 4');
  });
  it('values, unknown keys and keys without words say nothing', () => {
    expect(explain(TEXT, 6, SCHEMA)).toBeNull();
    expect(explain(TEXT, TEXT.indexOf('own'), SCHEMA)).toBeNull();
    expect(explain(TEXT, TEXT.indexOf('volume'), SCHEMA)).toBeNull();
    expect(explain(TEXT, 1, undefined)).toBeNull();
  });
});
