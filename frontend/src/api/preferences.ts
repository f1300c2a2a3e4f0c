/** How the person wants the portal: read once, and kept up to date by whoever changes it. */

import { queryOptions } from '@tanstack/react-query';

import { api, take, type Schemas } from './client';
import { queries } from './query';

export type PreferenceChange = Schemas['PatchedPreferenceInRequest'];

export const preferencesQuery = queryOptions({ queryKey: ['preferences'], staleTime: 5 * 60_000, queryFn: () => take(api.GET('/api/v1/preferences')) });

export async function prefer(body: PreferenceChange): Promise<void> {
  queries.setQueryData(preferencesQuery.queryKey, await take(api.PATCH('/api/v1/preferences', { body })));
}
