/** Limits that contradict each other. */

import { expect, test } from 'vitest';

import { check, type Limit } from './check';

const limit = (part: Partial<Limit>): Limit => ({ guarantee: 0, deserved: null, ceiling: null, weight: 1, ...part });
const root = { id: 'root', parentId: null, limit: limit({}) };

test('promises add up to at most what is above them', () => {
  const found = check(
    [root, { id: 'a', parentId: 'root', limit: limit({ guarantee: 5 }) }, { id: 'b', parentId: 'root', limit: limit({ guarantee: 2, deserved: 6 }) }, { id: 'a1', parentId: 'a', limit: limit({ guarantee: 6 }) }],
    8,
  );
  expect(found.sums.get('root')).toEqual({ guarantee: 7, deserved: 11 });
  expect(found.faults.get('root')).toEqual([{ column: 'deserved', code: 'sum_above_parent', is: 11, bound: 8 }]);
  expect(found.faults.get('a')?.map((fault) => fault.column)).toEqual(['guarantee', 'deserved']);
});

test('guarantee, deserved and ceiling keep their order, and a ceiling is at most the lowest above', () => {
  const found = check(
    [root, { id: 'a', parentId: 'root', limit: limit({ ceiling: 4 }) }, { id: 'a1', parentId: 'a', limit: limit({ guarantee: 3, deserved: 2, ceiling: 1 }) }, { id: 'a2', parentId: 'a', limit: limit({ ceiling: 5 }) }],
    null,
  );
  expect(found.faults.get('a1')?.map((fault) => [fault.column, fault.code])).toEqual([
    ['deserved', 'below_guarantee'],
    ['guarantee', 'above_ceiling'],
    ['deserved', 'above_ceiling'],
  ]);
  expect(found.faults.get('a2')).toEqual([{ column: 'ceiling', code: 'above_parent', is: 5, bound: 4 }]);
  expect(found.faults.has('root')).toBe(false);
});
