/** What a change changed: every value that differs, by its path, of two JSON objects. */

export interface Difference {
  path: string;
  kind: 'added' | 'removed' | 'changed';
  before: string;
  after: string;
}

const SHOWN_MAX = 500; // Of one row; more is no reading matter.

/** Values as JSON, texts without quotes. */
function valueText(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function leaves(value: unknown, path: string, into: Map<string, unknown>): void {
  const isObject = typeof value === 'object' && value !== null;
  const entries: [string, unknown][] = !isObject ? [] : Array.isArray(value) ? value.map((each, index): [string, unknown] => [String(index), each]) : Object.entries(value);
  if (entries.length === 0) {
    if (path) into.set(path, value);
    return;
  }
  for (const [name, each] of entries) leaves(each, path ? `${path}.${name}` : name, into);
}

export function differences(before: unknown, after: unknown): Difference[] {
  const [older, newer] = [new Map<string, unknown>(), new Map<string, unknown>()];
  leaves(before, '', older);
  leaves(after, '', newer);
  const found: Difference[] = [];
  for (const path of new Set([...older.keys(), ...newer.keys()])) {
    const [was, is] = [valueText(older.get(path)), valueText(newer.get(path))];
    const kind = !older.has(path) ? 'added' : !newer.has(path) ? 'removed' : 'changed';
    if (kind === 'changed' && was === is) continue;
    found.push({ path, kind, before: was, after: is });
    if (found.length >= SHOWN_MAX) break;
  }
  return found;
}
