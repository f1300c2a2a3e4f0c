/** What each task of a job asked for, to be drawn beside what it used. */

import type { MetricName } from './units';

export interface Asked {
  /** Null where all roles ask for the same. */
  role: string | null;
  value: number;
}

type Role = Readonly<Record<string, unknown>>;

/** Of the roles whose tasks are shown; empty for a metric of which nothing is asked. `spec` as the API keeps it. */
export function askedOf(spec: Readonly<Record<string, unknown>>, metric: MetricName, shown: ReadonlySet<string>): Asked[] {
  const read = metric === 'cpu_millis' ? cpuMillis : metric === 'memory_bytes' ? memoryBytes : null;
  if (read === null) return [];
  const asked = rolesOf(spec).flatMap(([role, resources]): Asked[] => {
    const value = shown.has(role) ? read(resources) : null;
    return value === null ? [] : [{ role, value }];
  });
  const [first] = asked;
  return first && asked.every((each) => each.value === first.value) ? [{ role: null, value: first.value }] : asked;
}

/** How many GPUs a task of a role has, where all that are shown have as many; null elsewhere. */
export function gpusOf(spec: Readonly<Record<string, unknown>>, shown: ReadonlySet<string>): number | null {
  const counts = new Set(rolesOf(spec).flatMap(([role, resources]) => (shown.has(role) ? [gpuCount(resources.gpu)] : [])));
  const [only] = counts;
  return counts.size === 1 && only ? only : null;
}

function rolesOf(spec: Readonly<Record<string, unknown>>): [string, Role][] {
  return Object.entries(asRecord(spec.roles)).map(([name, role]) => [name, asRecord(asRecord(role).resources)]);
}

function cpuMillis({ cpu }: Role): number | null {
  if (typeof cpu === 'number') return cpu * 1000;
  return typeof cpu === 'string' && /^\d+m$/.test(cpu) ? Number(cpu.slice(0, -1)) : null;
}

function memoryBytes({ memory }: Role): number | null {
  return typeof memory === 'number' ? memory : null;
}

/** `2`, `"0.5"` or `"A100:2"`. */
function gpuCount(gpu: unknown): number {
  const count = typeof gpu === 'string' ? Number(gpu.split(':').at(-1)) : typeof gpu === 'number' ? gpu : 0;
  return Number.isFinite(count) ? count : 0;
}

function asRecord(value: unknown): Role {
  return value && typeof value === 'object' && !Array.isArray(value) ? (value as Role) : {};
}
