/** What each GPU of a node shows: its occupant as far as the reader may know, its health, and whether it could be had. */

import type { Schemas } from '@/api/client';
import type { FleetNode } from '@/api/fleet';

type Occupant = Schemas['OccupiedGpuOut'];

export type CellKind = 'free' | 'used' | 'other' | 'broken' | 'closed';

export interface Cell {
  index: number;
  kind: CellKind;
  occupant: Occupant | null;
  /** Thousandths of the GPU that are taken, where only a part is. */
  share: number;
}

/** A node's GPUs as far as the answer says who is on them. */
export type Occupied = Pick<Schemas['OccupiedNodeOut'], 'gpus' | 'undecided_gpu_millis'>;
export type Occupancy = ReadonlyMap<string, Occupied>;

export function isClosed(node: FleetNode): boolean {
  return node.cordoned || !node.ready;
}

/** Where nobody says which GPUs are meant, the first free ones are shown as used, as many as are taken. */
export function cellsOf(node: FleetNode, occupied: Occupied | undefined): Cell[] {
  const known = new Map(occupied?.gpus.filter((gpu) => gpu.held).map((gpu) => [gpu.index, gpu]));
  let left = occupied ? occupied.undecided_gpu_millis : node.allocated.gpu_millis;
  return node.gpus.map((gpu, index) => {
    const occupant = known.get(index) ?? null;
    const share = occupant ? occupant.held_millis : Math.min(1000, left);
    if (!occupant) left -= share;
    const kind: CellKind = !gpu.healthy ? 'broken' : occupant?.tenant ? 'used' : share > 0 ? 'other' : isClosed(node) ? 'closed' : 'free';
    return { index, kind, occupant, share };
  });
}

export const SHOWS = ['all', 'free', 'busy', 'unhealthy', 'drained'] as const;
export type Shows = (typeof SHOWS)[number];

export interface Filter {
  shows: Shows;
  pool: string;
  model: string;
  text: string;
}

export function fits(node: FleetNode, occupied: Occupied | undefined, filter: Filter): boolean {
  if (filter.pool && node.pool.id !== filter.pool) return false;
  if (filter.model && node.gpu_model !== filter.model) return false;
  if (filter.shows === 'drained' && !node.cordoned) return false;
  if (filter.shows === 'unhealthy' && node.ready && node.gpus.every((gpu) => gpu.healthy)) return false;
  if (filter.shows === 'free' && (isClosed(node) || !hasRoom(node))) return false;
  if (filter.shows === 'busy' && node.allocated.gpu_millis === 0 && node.allocated.cpu_millis === 0) return false;
  const needle = filter.text.trim().toLowerCase();
  if (needle === '') return true;
  const said = [node.name, node.pool.name, node.cluster.name, ...(occupied?.gpus ?? []).flatMap((one) => [one.job_name, one.tenant, one.user])];
  return said.some((word) => word?.toLowerCase().includes(needle));
}

function hasRoom(node: FleetNode): boolean {
  return node.capacity.gpu_millis > 0 ? node.allocated.gpu_millis < node.capacity.gpu_millis : node.allocated.cpu_millis < node.capacity.cpu_millis;
}

type MapRow = { kind: 'head'; key: string; node: FleetNode; count: number } | { kind: 'nodes'; key: string; nodes: readonly FleetNode[] };

/** Nodes by cluster and pool, so many to a line, each group below its own heading. */
export function mapRows(nodes: readonly FleetNode[], perLine: number): MapRow[] {
  const groups = new Map<string, FleetNode[]>();
  for (const node of nodes) {
    const key = `${node.cluster.name}/${node.pool.name}/${node.pool.id}`;
    const group = groups.get(key);
    if (group) group.push(node);
    else groups.set(key, [node]);
  }
  const rows: MapRow[] = [];
  for (const key of [...groups.keys()].sort()) {
    const group = groups.get(key) ?? [];
    group.sort((one, other) => one.name.localeCompare(other.name, undefined, { numeric: true }));
    const [first] = group;
    if (first) rows.push({ kind: 'head', key, node: first, count: group.length });
    for (let at = 0; at < group.length; at += perLine) rows.push({ kind: 'nodes', key: `${key}#${at}`, nodes: group.slice(at, at + perLine) });
  }
  return rows;
}

const HUES = ['blue', 'teal', 'grape', 'orange', 'cyan', 'pink', 'lime', 'indigo'] as const;

/** A tenant's colour, the same everywhere and for ever: by its name. */
export function hue(tenant: string): (typeof HUES)[number] {
  let sum = 7;
  for (const letter of tenant) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 65_521;
  return HUES[sum % HUES.length] ?? 'blue';
}
