/** Rows with a parent each, in the order of a tree: every row after its parent, siblings by name. */

export interface Placed<T> {
  row: T;
  depth: number;
}

/** A row whose parent is not among the rows stands at the top. */
export function asTree<T>(rows: readonly T[], id: (row: T) => string, parent: (row: T) => string | null, name: (row: T) => string): Placed<T>[] {
  const known = new Set(rows.map(id));
  const below = new Map<string, T[]>();
  for (const row of rows) {
    const above = parent(row);
    const key = above !== null && known.has(above) ? above : '';
    const siblings = below.get(key);
    if (siblings) siblings.push(row);
    else below.set(key, [row]);
  }
  const found: Placed<T>[] = [];
  const visit = (key: string, depth: number) => {
    for (const row of (below.get(key) ?? []).sort((a, b) => name(a).localeCompare(name(b)))) {
      found.push({ row, depth });
      visit(id(row), depth + 1);
    }
  };
  visit('', 0);
  return found;
}

/** The rows that fit, with all above them, so that each is seen in its place. */
export function fitting<T>(rows: readonly T[], id: (row: T) => string, parent: (row: T) => string | null, fits: (row: T) => boolean): T[] {
  const byId = new Map(rows.map((row) => [id(row), row]));
  const kept = new Set<string>();
  for (const row of rows) {
    if (!fits(row)) continue;
    let here: T | undefined = row;
    while (here !== undefined && !kept.has(id(here))) {
      kept.add(id(here));
      const above: string | null = parent(here);
      here = above === null ? undefined : byId.get(above);
    }
  }
  return rows.filter((row) => kept.has(id(row)));
}
