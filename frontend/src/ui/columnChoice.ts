/** What a person changed about the columns of a table, and what is shown by that. Only differences are kept: what is offered later
 * comes as it is meant to. */

import type { Column } from './Rows';

export type Choice = Readonly<Record<string, boolean>>;
type Columns = readonly Pick<Column<unknown>, 'key' | 'choice'>[];

/** Whatever stands in the browser's memory; nothing where that is no choice. */
export function readChoice(text: string | null): Choice {
  try {
    const kept: unknown = JSON.parse(text ?? '{}');
    if (typeof kept !== 'object' || kept === null || Array.isArray(kept)) return {};
    return Object.fromEntries(Object.entries(kept).filter((entry): entry is [string, boolean] => typeof entry[1] === 'boolean'));
  } catch {
    return {};
  }
}

/** By key, of the columns that may be chosen; the others are always there. */
export function visibilityOf(columns: Columns, choice: Choice): Record<string, boolean> {
  return Object.fromEntries(columns.flatMap(({ key, choice: usual }) => (usual ? [[key, choice[key] ?? usual === 'shown']] : [])));
}

/** The choice with this column shown if it is hidden, and hidden if it is shown. */
export function withColumn(columns: Columns, choice: Choice, key: string): Choice {
  const usual = visibilityOf(columns, {})[key];
  if (usual === undefined) return choice;
  const { [key]: chosen = usual, ...others } = choice;
  return chosen === usual ? { ...others, [key]: !usual } : others;
}
