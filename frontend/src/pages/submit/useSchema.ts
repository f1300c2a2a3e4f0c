/** The JSON Schema of job files, read once. */

import { useQuery } from '@tanstack/react-query';

import { api, take } from '@/api/client';

import type { Schema } from './schema';

export function useSchema(): Schema | undefined {
  const schema = useQuery({ queryKey: ['job-schema'], staleTime: Infinity, queryFn: async () => (await take(api.GET('/api/v1/schemas/job-spec'))) as unknown as Schema });
  return schema.data;
}
