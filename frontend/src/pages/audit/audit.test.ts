import { expect, test } from 'vitest';

import { cell, csv } from './csv';
import { differences } from './diff';

test('formulas become texts, and quotes are doubled', () => {
  expect(cell('=HYPERLINK("http://x")')).toBe(`"'=HYPERLINK(""http://x"")"`);
  expect(['+1', '-1', '@a', '\tx'].map(cell)).toEqual(["'+1", "'-1", "'@a", "'\tx"]);
  expect(csv([['a', -1, null], ['b,c', 'd', undefined]])).toBe('a,-1,\r\n"b,c",d,\r\n');
});

test('only what differs is told, with its path', () => {
  expect(differences({ a: 1, deep: { b: [1, 2], gone: true }, same: 'x' }, { a: 2, deep: { b: [1, 3, 4] }, same: 'x' })).toEqual([
    { path: 'a', kind: 'changed', before: '1', after: '2' },
    { path: 'deep.b.1', kind: 'changed', before: '2', after: '3' },
    { path: 'deep.gone', kind: 'removed', before: 'true', after: '' },
    { path: 'deep.b.2', kind: 'added', before: '', after: '4' },
  ]);
  expect(differences(null, { name: '' })).toEqual([{ path: 'name', kind: 'added', before: '', after: '' }]);
});
