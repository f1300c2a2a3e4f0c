import { describe, expect, it } from 'vitest';

import { readChoice, visibilityOf, withColumn } from './columnChoice';

const columns = [{ key: 'name' }, { key: 'user', choice: 'shown' }, { key: 'pool', choice: 'hidden' }] as const;

describe('columns that a person chose', () => {
  it('are those of the page at first', () => {
    expect(visibilityOf(columns, {})).toEqual({ user: true, pool: false });
  });

  it('keep only what differs', () => {
    const shown = withColumn(columns, {}, 'pool');
    expect(shown).toEqual({ pool: true });
    expect(visibilityOf(columns, shown)).toEqual({ user: true, pool: true });
    expect(withColumn(columns, shown, 'pool')).toEqual({});
    expect(withColumn(columns, shown, 'user')).toEqual({ pool: true, user: false });
  });

  it('never leave out a column that is always there', () => {
    expect(withColumn(columns, {}, 'name')).toEqual({});
    expect(visibilityOf(columns, { name: false })).toEqual({ user: true, pool: false });
  });

  it('are forgotten where the memory holds anything else', () => {
    for (const text of [null, '', '{', 'null', '[true]', '"user"', '{"user":"no"}']) expect(readChoice(text)).toEqual({});
    expect(readChoice('{"user":false,"pool":1}')).toEqual({ user: false });
  });
});
