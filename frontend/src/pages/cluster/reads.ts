/** Who is on which GPU. Names of other tenants come only to those who may know them. */

import { useQuery } from '@tanstack/react-query';

import { send } from '@/api/client';
import { readAll } from '@/api/fleet';
import { asProblem } from '@/api/problem';

import type { Occupancy, Occupied } from './cells';

interface OccupiedNode extends Occupied {
  node_id: string;
}

/** Null: this server does not tell. */
export function useOccupancy() {
  return useQuery({
    queryKey: ['nodes', 'occupancy'],
    refetchInterval: 15_000,
    queryFn: async ({ signal }): Promise<Occupancy | null> => {
      try {
        const nodes = await readAll(async ({ limit, cursor }) => {
          const query = new URLSearchParams({ limit: String(limit), ...(cursor ? { cursor } : {}) });
          const answer = (await (await send('GET', `/api/v1/occupancy?${query}`, { signal })).json()) as { nodes: OccupiedNode[]; next: string | null };
          return { items: answer.nodes, next: answer.next };
        });
        return new Map(nodes.map((node) => [node.node_id, node]));
      } catch (error) {
        if (asProblem(error).status === 404) return null;
        throw error;
      }
    },
  });
}
