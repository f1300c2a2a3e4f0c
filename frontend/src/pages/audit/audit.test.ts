/** What a change changed. */

import { expect, test } from 'vitest';

import { differences } from './diff';

test('only what differs is told, with its path', () => {
  expect(differences({ a: 1, deep: { b: [1, 2], gone: true }, same: 'x' }, { a: 2, deep: { b: [1, 3, 4] }, same: 'x' })).toEqual([
    { path: 'a', kind: 'changed', before: '1', after: '2' },
    { path: 'deep.b.1', kind: 'changed', before: '2', after: '3' },
    { path: 'deep.gone', kind: 'removed', before: 'true', after: '' },
    { path: 'deep.b.2', kind: 'added', before: '', after: '4' },
  ]);
  expect(differences(null, { name: '' })).toEqual([{ path: 'name', kind: 'added', before: '', after: '' }]);
});
