/** What POST /rerun takes as `changes`: the top-level parts of a spec that differ, null for those that are gone. */

export function changedParts(older: Readonly<Record<string, unknown>>, newer: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  for (const key of new Set([...Object.keys(older), ...Object.keys(newer)])) {
    if (!(key in newer)) changes[key] = null;
    else if (canonical(older[key]) !== canonical(newer[key])) changes[key] = newer[key];
  }
  return changes;
}

/** The order of keys says nothing. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner && typeof inner === 'object' && !Array.isArray(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  ) ?? 'undefined';
}
