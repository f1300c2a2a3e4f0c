/** A job file read, changed and written. */

import { describe, expect, it } from 'vitest';

import { addRole, change, imported, inFull, parse, rangeOf, read, rename, writeSpec } from './spec';

const TEXT = `# My job
name: hello   # its name
command: |
  echo one
  echo two
resources: {cpu: 0.5, memory: 256Mi}  # small
x_unknown: [1, 2]
env:
  SEED: "7"
`;

describe('a job file', () => {
  it('changes only the word that changes', () => {
    expect(change(TEXT, ['name'], 'bye')).toBe(TEXT.replace('hello', 'bye'));
    expect(change(TEXT, ['resources', 'cpu'], 2)).toBe(TEXT.replace('0.5', '2'));
    expect(change(TEXT, ['env', 'SEED'], '8')).toBe(TEXT.replace('"7"', '"8"'));
  });
  it('keeps comments and unknown keys when a block changes', () => {
    const made = change(TEXT, ['command'], 'echo three\necho four\n');
    expect(made).toContain('# My job');
    expect(made).toContain('# its name');
    expect(made).toContain('x_unknown: [1, 2]');
    expect(read(parse(made))?.command).toBe('echo three\necho four\n');
  });
  it('puts new keys where they usually stand and takes empty parents out', () => {
    const made = change(TEXT, ['queue'], 'team');
    expect(made.split('\n')[2]).toBe('queue: team');
    expect(change(TEXT, ['env', 'SEED'], undefined)).not.toContain('env');
    expect(read(parse(change(TEXT, ['retry', 'limit'], 2)))?.retry).toEqual({ limit: 2 });
    expect(read(parse(change('', ['resources', 'gpu'], 1)))).toEqual({ resources: { gpu: 1 } });
  });
  it('moves the only role below its name when a second comes', () => {
    const made = read(parse(addRole(TEXT)));
    expect(Object.keys(made?.roles as object)).toEqual(['worker', 'server']);
    expect(made?.command).toBeUndefined();
    const renamed = read(parse(rename(addRole(TEXT), ['roles', 'server'], 'ps')));
    expect(Object.keys(renamed?.roles as object)).toEqual(['worker', 'ps']);
  });
  it('quotes text that would read as something else', () => {
    expect(read(parse(change(TEXT, ['env', 'N'], '12')))?.env).toEqual({ SEED: '7', N: '12' });
    expect(read(parse(change(TEXT, ['name'], '- : #')))?.name).toBe('- : #');
  });
  it('finds the place of a pointer, or of what is around it', () => {
    const document = parse(TEXT);
    const [from, to] = rangeOf(document, '/resources/memory');
    expect(TEXT.slice(from, to)).toBe('256Mi');
    expect(TEXT.slice(...rangeOf(document, '/env/SEED', 'key'))).toBe('SEED');
    expect(TEXT.slice(...rangeOf(document, '/env/NONE/x'))).toBe('env');
  });
  it('writes a stored spec as people do', () => {
    const text = writeSpec({ image: 'host', name: 'a', priority: 500, max_runtime: 3600, roles: { worker: { command: 'true', resources: { cpu: '100m', memory: 67108864 } } } });
    expect(text).toBe('name: a\ncommand: "true"\nresources:\n  cpu: 100m\n  memory: 64Mi\nmax_runtime: 1h\n');
  });
  it('is the same job in short and in full', () => {
    const stored = { name: 'a', roles: { worker: { command: 'true', resources: { cpu: 1, memory: 2147483648 } } } };
    const text = writeSpec(stored);
    expect(text).toContain('memory: 2Gi');
    expect(inFull(read(parse(text)) ?? {})).toEqual({ name: 'a', roles: { worker: { command: 'true', resources: { cpu: 1, memory: '2Gi' } } } });
    expect(inFull(stored)).toEqual(stored);
  });
  it('reads JSON files, and a spec inside of a body', () => {
    expect(imported('{"spec": {"name": "a", "command": "b"}, "tenant": "t"}')).toBe('name: a\ncommand: b\n');
    expect(imported('name: a\r\n')).toBe('name: a\n');
  });
});
