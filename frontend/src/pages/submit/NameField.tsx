/** The name of an image or a volume: the newest are offered at once; where there are more, those that fit what is typed. */

import { Autocomplete, type AutocompleteProps } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';

import type { Offers } from './edit';
import { useSought } from './loading';

const PAUSE_MS = 250;
const SHOWN_MAX = 50;

export function NameField({ kind, offers, value, ...props }: { kind: 'images' | 'volumes'; offers: Offers; value: string } & Omit<AutocompleteProps, 'data' | 'value'>) {
  const [text] = useDebouncedValue(value, PAUSE_MS);
  const found = useSought(kind, offers.tenant, text, offers.hasMore[kind]);
  return <Autocomplete {...props} value={value} data={found ? [...new Set([...found, ...offers[kind]])] : offers[kind]} limit={SHOWN_MAX} />;
}
