/** A tree of what one may see of it. */

import { expect, test } from 'vitest';

import { asTree, fitting } from './tree';

const rows = [
  { id: 'b', parent: null, name: 'beta' },
  { id: 'a2', parent: 'a', name: 'two' },
  { id: 'a', parent: null, name: 'alpha' },
  { id: 'x', parent: 'gone', name: 'zed' },
  { id: 'a21', parent: 'a2', name: 'deep' },
];
const id = (row: (typeof rows)[number]) => row.id;
const parent = (row: (typeof rows)[number]) => row.parent;

test('each row follows its parent, and one whose parent is not seen stands at the top', () => {
  expect(asTree(rows, id, parent, (row) => row.name).map(({ row, depth }) => [row.id, depth])).toEqual([
    ['a', 0],
    ['a2', 1],
    ['a21', 2],
    ['b', 0],
    ['x', 0],
  ]);
});

test('what fits is kept with all above it', () => {
  expect(fitting(rows, id, parent, (row) => row.name === 'deep').map(id)).toEqual(['a2', 'a', 'a21']);
});
