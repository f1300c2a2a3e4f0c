/** Files of other systems, which the server makes jobs of: OpenPAI's protocol v2 and scripts for sbatch. */

import { useQuery, type QueryObserverOptions, type UseQueryResult } from '@tanstack/react-query';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import { useLanguage, type Language } from '@/text/language';

export type Conversion = Schemas['ConvertOut'];

/** A file as it was opened; what became of it is asked of the server. */
export interface Foreign {
  text: string;
  name: string;
}

const DIRECTIVE = /^#SBATCH(?:\s|$)/m;
const PROTOCOL = /^["']?(?:taskRoles|protocolVersion)["']?[ \t]*:/m;
const PROTOCOL_JSON = /^\s*\{\s*"[^{}]*"(?:taskRoles|protocolVersion)"\s*:|^\s*\{\s*"(?:taskRoles|protocolVersion)"\s*:/;

/** Whether a text is for another system, as the server tells it. */
export function isForeign(text: string): boolean {
  return DIRECTIVE.test(text) || PROTOCOL.test(text) || PROTOCOL_JSON.test(text);
}

function asking(file: Foreign, language: Language): QueryObserverOptions<Conversion> & { queryKey: unknown[] } {
  return {
    queryKey: ['conversion', language, file.name, file.text],
    staleTime: Infinity,
    retry: false,
    queryFn: () => take(api.POST('/api/v1/jobs:convert', { body: { text: file.text, name: file.name } })),
  };
}

export function convert(file: Foreign, language: Language): Promise<Conversion> {
  return queries.fetchQuery(asking(file, language));
}

/** What became of the file, in the language chosen now. */
export function useConversion(file: Foreign): UseQueryResult<Conversion> {
  const { language } = useLanguage();
  return useQuery(asking(file, language));
}
