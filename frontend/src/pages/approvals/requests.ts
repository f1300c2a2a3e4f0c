/** The two kinds of requests of the inbox. */

import type { Schemas } from '@/api/client';

export type PriorityRequest = Schemas['PriorityRequestOut'];
export type QuotaRequest = Schemas['QuotaRequestOut'];
export type Asked = { kind: 'priority'; row: PriorityRequest } | { kind: 'quota'; row: QuotaRequest };
