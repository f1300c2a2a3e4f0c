/** Cells that a spreadsheet must not take for formulas. */

import { describe, expect, it } from 'vitest';

import { cell, csv } from './files';

describe('a cell of CSV', () => {
  it.each([
    ['=1+1', "'=1+1"],
    ['=HYPERLINK("http://x")', `"'=HYPERLINK(""http://x"")"`],
    ['+1', "'+1"],
    ['-1', "'-1"],
    ['@a', "'@a"],
    ['\ta', "'\ta"],
    ['\ra', '"\'\ra"'],
    ['a,"b"', '"a,""b"""'],
  ])('%j', (value, expected) => expect(cell(value)).toBe(expected));
  it('leaves numbers alone', () => expect(cell(-1)).toBe('-1'));
});

it('ends every row, and leaves unknown cells empty', () => {
  expect(csv([['a', -1, null], ['b,c', 'd', undefined]])).toBe('a,-1,\r\n"b,c",d,\r\n');
});
