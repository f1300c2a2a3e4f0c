/** Who is on which GPU. Names of other tenants come only to those who may know them. */

import { useQuery } from '@tanstack/react-query';

import { api, take } from '@/api/client';
import { readAll } from '@/api/fleet';

import type { Occupancy } from './cells';

export function useOccupancy() {
  return useQuery({
    queryKey: ['nodes', 'occupancy'],
    refetchInterval: 15_000,
    queryFn: async ({ signal }): Promise<Occupancy> => {
      const nodes = await readAll(async (page) => {
        const answer = await take(api.GET('/api/v1/occupancy', { params: { query: page }, signal }));
        return { items: answer.nodes, next: answer.next };
      });
      return new Map(nodes.map((node) => [node.node_id, node]));
    },
  });
}
