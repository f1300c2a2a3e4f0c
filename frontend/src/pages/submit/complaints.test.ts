/** What is wrong with a job file, told at its line and at its place. */

import { describe, expect, it } from 'vitest';

import { fill, type Language } from '@/text/language';

import { placed, readJob, schemaProblems } from './complaints';
import { complaints } from './complaintsText';
import type { Schema } from './schema';

const tell = (language: Language) => (key: keyof typeof complaints.en, values?: Record<string, string | number>) => fill(complaints[language][key], values);
const en = tell('en');

const SCHEMA: Schema = {
  type: 'object',
  additionalProperties: false,
  required: ['command'],
  properties: {
    command: { type: 'string' },
    name: { type: 'string', pattern: '^[a-z]+$', examples: ['digits'] },
    framework: { type: 'string', enum: ['jax', 'pytorch'] },
    replicas: { type: 'integer', minimum: 1, maximum: 64 },
    tags: { type: 'array', items: { type: 'string' } },
    hold: { anyOf: [{ type: 'boolean' }, { type: 'null' }] },
  },
};

describe('a file that cannot be read', () => {
  it.each([
    ['a tab', 'name: a\nenv:\n\tA: 1\n', 3],
    ['an indent', 'name: a\n  queue: b\nretry:\n limit: 1\n   on: x\n', 2],
    ['a key twice', 'name: a\ncommand: b\nname: c\n', 3],
    ['a bracket left open', 'name: a\ntags: [a, b\ncommand: c\n', 3],
    ['a quote left open', 'name: "a\n', 1],
  ])('says so at its line: %s', (_what, text, line) => {
    const { values, broken, marks } = readJob(text, en);
    expect(values).toBeNull();
    expect(broken.length).toBe(marks.length);
    expect(broken[0]?.code).toBe('syntax');
    expect(broken.map((each) => each.line).some((each) => Math.abs((each ?? 0) - line) <= 1)).toBe(true);
    expect(broken.every((each) => each.message.length > 0)).toBe(true);
  });
  it('that is a list says that a job is a mapping', () => {
    const { values, broken } = readJob('- a\n- b\n', en);
    expect(values).toBeNull();
    expect(broken).toEqual([{ path: '', code: 'syntax', message: en('notMapping'), line: 1 }]);
  });
  it('is told in the language of the reader', () => {
    expect(readJob('a: 1\na: 2\n', tell('zh')).broken[0]?.message).toBe(complaints.zh.duplicate);
  });
  it('is none that is empty: there is nothing wrong yet', () => {
    expect(readJob('', en)).toEqual({ values: {}, marks: [], broken: [] });
  });
});

describe('what the schema refuses', () => {
  const problems = (values: Record<string, unknown>) => schemaProblems(SCHEMA, values as never, en);
  it('has a place, a kind and words each', () => {
    const found = problems({ name: 'A', framework: 'jex', replicas: 0, tags: ['a', 1], commnd: 'x', hold: 'maybe' });
    expect(found.map((problem) => [problem.path, problem.code])).toEqual([['/name', 'shape'], ['/framework', 'choice'], ['/replicas', 'range'], ['/tags/1', 'type'], ['/commnd', 'key'], ['/hold', 'type'], ['/command', 'missing']]);
    for (const problem of found) expect(problem.message).not.toMatch(/\{\w+\}/);
  });
  it('says what was meant, and what is allowed', () => {
    const by = new Map(problems({ name: 'A', framework: 'jex', replicas: 99, commnd: 'x' }).map((problem) => [problem.path, problem]));
    expect(by.get('/commnd')?.hint).toContain('command');
    expect(by.get('/name')?.hint).toContain('digits');
    expect(by.get('/framework')?.message).toContain('jax, pytorch');
    expect(by.get('/replicas')?.message).toContain('1 – 64');
  });
  it('is nothing without a schema, and of a file that cannot be read', () => {
    expect(schemaProblems(undefined, { a: 1 }, en)).toEqual([]);
    expect(schemaProblems(SCHEMA, null, en)).toEqual([]);
  });
});

describe('problems in the text', () => {
  const TEXT = 'name: a\nroles:\n  worker:\n    replicas: 99\n    gpuss: 1\n';
  const marked = (problem: Record<string, unknown>) => {
    const { marks, list } = placed(TEXT, [{ code: 'x', message: 'Wrong.', ...problem } as never]);
    return [TEXT.slice(marks[0]?.from, marks[0]?.to), list[0]?.line];
  };
  it('are marked at their values, unknown keys at the key', () => {
    expect(marked({ path: '/roles/worker/replicas' })).toEqual(['99', 4]);
    expect(marked({ path: '/roles/worker/gpuss', code: 'unknown_key' })).toEqual(['gpuss', 5]);
  });
  it('of a part that is not there are marked at what is around it', () => {
    expect(marked({ path: '/roles/worker/command', code: 'missing' })).toEqual(['worker', 3]);
    expect(marked({ path: '/nothing' })).toEqual(['name: a', 1]);
  });
  it('of the whole file are marked at the line that the server names, if there is one', () => {
    expect(marked({ path: '', line: 3 })).toEqual(['  worker:', 3]);
    expect(marked({ path: '', line: 400 })[1]).toBe(6);
    expect(marked({ path: '' })).toEqual(['name: a', 1]);
  });
  it('say what to do behind what is wrong', () => {
    const { marks } = placed(TEXT, [{ path: '/name', code: 'x', message: 'Wrong.', hint: 'Right it.' }]);
    expect(marks[0]?.message).toBe('Wrong.\nRight it.');
  });
});
