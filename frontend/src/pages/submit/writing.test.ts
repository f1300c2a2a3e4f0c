/** What the form does to the file, and what the file says to the form: nothing that is not meant is lost on the way. */

import { describe, expect, it } from 'vitest';

import { makeProblem, listOf, textOf } from './edit';
import { addRole, bytesText, change, changeAll, imported, inFull, parse, partsOf, pointerOf, rangeOf, read, rename, roleBase, rolesOf, withSnapshot, writeSpec, type Path, type Plain } from './spec';

const FILE = `# Nightly run, owned by the vision team
name: nightly
queue: vision   # not the top queue
roles:
  worker:
    replicas: 2
    resources: {cpu: 4, memory: 16Gi, gpu: "a100:1"}
    command: |
      python train.py \\
        --epochs 3
    x-note: kept
  server:
    command: "python serve.py"
env:
  SEED: "7"
  RATE: '0.1'
mounts:
- volume: digits
  path: /data
future_key: {deep: [1, {a: b}]}
`;

const values = (text: string) => read(parse(text));

describe('a change of the form', () => {
  const CHANGES: [Path, Plain | undefined][] = [
    [['name'], 'weekly'],
    [['queue'], undefined],
    [['roles', 'worker', 'replicas'], 4],
    [['roles', 'worker', 'resources', 'gpu'], 2],
    [['roles', 'worker', 'resources', 'shm'], '8Gi'],
    [['roles', 'worker', 'command'], 'python other.py'],
    [['roles', 'server', 'command'], 'two\nlines\n'],
    [['env', 'SEED'], '8'],
    [['env', 'NEW'], 'yes'],
    [['mounts', 0, 'path'], '/elsewhere'],
    [['mounts', 1], { volume: 'more', path: '/more' }],
    [['retry', 'limit'], 3],
    [['tags'], ['a', 'b']],
    [['max_runtime'], '2h'],
  ];

  it.each(CHANGES)('of %j to %j is what it says, and leaves everything else as it was', (path, value) => {
    const before = values(FILE) ?? {};
    const after = values(change(FILE, path, value)) ?? {};
    const [top] = path;
    for (const key of Object.keys(before)) if (key !== top) expect(after[key], key).toEqual(before[key]);
    let here: unknown = after;
    for (const part of path) here = (here as Record<string, unknown> | undefined)?.[part as string];
    expect(here).toEqual(value);
  });

  it.each(CHANGES)('of %j to %j keeps comments and keys that no form knows', (path, value) => {
    const made = change(FILE, path, value);
    expect(made).toContain('# Nightly run, owned by the vision team');
    if (path[0] !== 'queue') expect(made).toContain('# not the top queue');
    expect(values(made)?.future_key).toEqual({ deep: [1, { a: 'b' }] });
    expect((values(made)?.roles as Record<string, Record<string, Plain>>).worker?.['x-note']).toBe('kept');
  });

  it('and back gives the file as it was, letter for letter, where one word changed', () => {
    for (const [path, value] of [[['name'], 'other'], [['env', 'SEED'], '9'], [['env', 'RATE'], '0.2'], [['roles', 'worker', 'replicas'], 7], [['roles', 'server', 'command'], 'x: y']] as [Path, Plain][]) {
      let was: unknown = values(FILE);
      for (const part of path) was = (was as Record<string, unknown>)[part as string];
      expect(change(change(FILE, path, value), path, was as Plain)).toBe(FILE);
    }
  });

  it.each(['yes', 'no', 'null', '~', '1e3', '0x10', '1:30', ' padded ', '', '#hash', '- list', '{a: b}', '"quoted"', "it's", 'a: b', '中文', 'trailing:', '@at', '%percent', '!tag', '&anchor', '*alias', '| pipe', '> fold'])('to the text %j is read back as that text', (text) => {
    for (const path of [['name'], ['env', 'SEED'], ['env', 'NEW'], ['roles', 'server', 'command']]) {
      let here: unknown = values(change(FILE, path, text));
      for (const part of path) here = (here as Record<string, unknown>)[part];
      expect(here).toBe(text);
    }
  });

  it('takes parents out once they are empty, and no role: a role without keys is still one', () => {
    expect(change('name: a\nretry:\n  limit: 2\n', ['retry', 'limit'], undefined)).toBe('name: a\n');
    expect(change('mounts:\n- volume: d\n', ['mounts', 0], undefined)).toBe('');
    expect(values(change('roles:\n  worker:\n    command: a\n', ['roles', 'worker', 'command'], undefined))?.roles).toEqual({ worker: {} });
    expect(change('name: a\n', ['env', 'NONE'], undefined)).toBe('name: a\n');
  });

  it('puts a new key where such keys usually stand, whatever order the file has', () => {
    const keys = (text: string) => Object.keys(values(text) ?? {});
    expect(keys(change('name: a\ncommand: b\ntags: [c]\n', ['queue'], 'q'))).toEqual(['name', 'queue', 'command', 'tags']);
    expect(keys(change('command: b\n', ['name'], 'a'))).toEqual(['name', 'command']);
    expect(keys(change('name: a\nx-own: 1\n', ['retry'], { limit: 1 }))).toEqual(['name', 'retry', 'x-own']);
  });

  it('of many at once is the same as of one after the other', () => {
    expect(changeAll(FILE, [[['name'], 'b'], [['queue'], undefined]])).toBe(change(change(FILE, ['name'], 'b'), ['queue'], undefined));
    expect(changeAll(FILE, [])).toBe(FILE);
  });

  it('begins a file that is empty', () => {
    expect(change('', ['name'], 'a')).toBe('name: a\n');
    expect(values(change('# only a comment\n', ['name'], 'a'))).toEqual({ name: 'a' });
  });
});

describe('roles', () => {
  it('of a short file are one, which stands at the top', () => {
    const short = values('command: a\nreplicas: 2\n') ?? {};
    expect(rolesOf(short)).toEqual([{ name: 'worker', role: short }]);
    expect(roleBase(short, 'worker')).toEqual([]);
    expect(roleBase(values(FILE) ?? {}, 'server')).toEqual(['roles', 'server']);
  });
  it('that are no mapping are shown empty, not lost', () => {
    expect(rolesOf(values('roles:\n  worker: 3\n') ?? {})).toEqual([{ name: 'worker', role: {} }]);
  });
  it('get names that are free', () => {
    const names = (text: string) => rolesOf(values(text) ?? {}).map((entry) => entry.name);
    let text = 'command: a\n';
    for (let count = 0; count < 4; count += 1) text = addRole(text);
    expect(names(text)).toEqual(['worker', 'server', 'helper', 'role-4', 'role-5']);
  });
  it('keep what the file says of all of them when a second comes', () => {
    const made = values(addRole('name: a # mine\nenv: {A: "1"}\ncommand: run\nresources: {cpu: 2}\n')) ?? {};
    expect(Object.keys(made)).toEqual(['name', 'roles', 'env']);
    expect((made.roles as Record<string, Plain>).worker).toEqual({ command: 'run', resources: { cpu: 2 } });
    expect(made.env).toEqual({ A: '1' });
  });
  it('are called otherwise where they stand, and never take the name of another', () => {
    const made = rename(FILE, ['roles', 'worker'], 'trainer');
    expect(Object.keys(values(made)?.roles as object)).toEqual(['trainer', 'server']);
    expect(made).toBe(FILE.replace('  worker:', '  trainer:'));
    expect(rename(FILE, ['roles', 'worker'], 'server')).toBe(FILE);
    expect(rename(FILE, ['roles', 'none'], 'x')).toBe(FILE);
    expect(values(rename('roles: {a: {command: b}}\n', ['roles', 'a'], 'yes: no'))?.roles).toEqual({ 'yes: no': { command: 'b' } });
    expect(rename(FILE, ['future_key'], 'later')).toBe(FILE.replace('future_key:', 'later:'));
  });
});

describe('a stored spec as a file', () => {
  const STORED = {
    name: 'a', kind: 'batch', image: 'host', priority: 500, max_runtime: 5400, unknown_part: { kept: true },
    roles: { worker: { command: ['python', 'x.py'], replicas: 2, resources: { gpu: 1, cpu: '500m', memory: 17179869184, shm: 1000 } }, ps: { command: 'b', ports: ['p'] } },
  }; // prettier-ignore

  it('says sizes and times as people do, and leaves out what is usual', () => {
    const made = values(writeSpec(STORED)) ?? {};
    expect(made.max_runtime).toBe('90m');
    expect((made.roles as Record<string, Record<string, Plain>>).worker?.resources).toEqual({ gpu: 1, cpu: '500m', memory: '16Gi', shm: 1000 });
    expect(made).not.toHaveProperty('priority');
    expect(made).not.toHaveProperty('image');
  });
  it('keeps what this portal does not know', () => {
    expect(values(writeSpec(STORED))?.unknown_part).toEqual({ kept: true });
    expect(values(writeSpec({ ...STORED, roles: 'none' }))?.roles).toBe('none');
  });
  it('stays in full where its only role has more than a short file can say, or another name', () => {
    expect(values(writeSpec({ roles: { worker: { command: 'a', env: { A: '1' } } } }))).toHaveProperty('roles');
    expect(values(writeSpec({ roles: { ps: { command: 'a' } } }))).toHaveProperty('roles');
    expect(values(writeSpec({ roles: { worker: { command: 'a' } } }))).toEqual({ command: 'a' });
  });
  it.each([[3600, '1h'], [86_400, '1d'], [90, 90], [60, '1m'], [7_260, '121m'], ['2h', '2h']])('writes %j seconds as %j', (seconds, text) => {
    expect(values(writeSpec({ max_runtime: seconds }))?.max_runtime).toBe(text);
  });
  it.each([[1024, '1Ki'], [1536 * 1024, '1536Ki'], [1024 ** 4, '1Ti'], [1000, 1000], [0, 0]])('writes %i bytes as %j', (bytes, text) => {
    expect(bytesText(bytes)).toBe(text);
  });
  it('is the same job again, read in full', () => {
    const made = inFull(values(writeSpec({ name: 'a', roles: { worker: { command: 'x', replicas: 1 } } })) ?? {});
    expect(made).toEqual({ name: 'a', roles: { worker: { command: 'x', replicas: 1 } } });
    expect(inFull({ name: 'a' })).toEqual({ name: 'a' });
  });
});

describe('a file that is opened', () => {
  it('of JSON becomes YAML, and one of YAML stays as it is', () => {
    expect(imported('{"name": "a", "command": "b"}')).toBe('name: a\ncommand: b\n');
    expect(imported('{"spec": {"name": "a"}, "command": "mine"}')).toContain('spec:');
    expect(imported('{name: a, command: b}')).toBe('{name: a, command: b}');
    expect(imported('\uFEFFname: a\r\n# b\r\n')).toBe('name: a\n# b\n');
    expect(imported('[1, 2]')).toBe('[1, 2]');
  });
  it('that is no mapping, has two keys of one name, or expands itself, is not read', () => {
    expect(values('- a\n')).toBeNull();
    expect(values('a: 1\na: 2\n')).toBeNull();
    expect(values('a: &x [1]\nb: [*x, *x]\n')).toBeNull();
    expect(values('')).toEqual({});
  });
  it('keeps words that only look like something else', () => {
    expect(values('a: yes\nb: 012\nc: 2026-11-24\nd: 0o17\n')).toEqual({ a: 'yes', b: 12, c: '2026-11-24', d: 15 });
  });
});

describe('uploaded code', () => {
  it('stands in the file, and is taken out with its folder', () => {
    const withCode = withSnapshot('name: a\ncommand: b\n', 'f00');
    expect(values(withCode)?.code).toEqual({ snapshot: 'f00' });
    expect(withSnapshot(withCode, null)).toBe('name: a\ncommand: b\n');
  });
  it('leaves a file alone that cannot be read', () => {
    expect(withSnapshot('name: [', 'f00')).toBe('name: [');
  });
});

describe('places', () => {
  it('are pointers whose signs are escaped, both ways', () => {
    for (const path of [[], ['a', 0, 'b'], ['a/b', '~x', '~1']]) expect(partsOf(pointerOf(path))).toEqual(path.map(String));
    expect(pointerOf(['a/b', '~x'])).toBe('/a~1b/~0x');
  });
  it('in the text are those of values, of keys, and of entries of lists', () => {
    const document = parse(FILE);
    const at = (pointer: string, wants?: 'key') => FILE.slice(...rangeOf(document, pointer, wants));
    expect(at('/mounts/0/volume')).toBe('digits');
    expect(at('/roles/worker/resources/gpu')).toBe('"a100:1"');
    expect(at('/roles/worker/resources/gpu', 'key')).toBe('gpu');
    expect(at('/mounts/0')).toBe('volume: digits\n  path: /data\n');
    expect(at('/roles/worker/nothing/here')).toBe('worker');
    expect(at('')).toBe('');
  });
});

describe('what is wrong at a field', () => {
  const problems = [{ path: '/name', code: 'x', message: 'Too long.', hint: 'Use fewer letters.' }, { path: '/mounts/0/path', code: 'x', message: 'No path.' }];
  const said = (node: unknown) => (node as { props?: { text?: unknown } } | undefined)?.props?.text;
  it('is told there, and at what is around it only where asked', () => {
    const problem = makeProblem(problems);
    expect(said(problem('/name'))).toEqual(['Too long.', 'Use fewer letters.']);
    expect(problem('/mounts')).toBeUndefined();
    expect(said(problem('/mounts', true))).toEqual(['No path.', undefined]);
    expect(problem('/mount', true)).toBeUndefined();
  });
  it('is of values that a field shows as text, whatever the file holds there', () => {
    expect([textOf('a'), textOf(1.5), textOf(false), textOf(null), textOf({ a: 1 }), textOf(undefined)]).toEqual(['a', '1.5', 'false', '', '', '']);
    expect([listOf(['a', 2, null]), listOf('a')]).toEqual([['a', '2', ''], []]);
  });
});
