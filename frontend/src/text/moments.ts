/** Times in sentences of the server are UTC, as `2026-11-23 14:05 UTC`; here they are read in the reader's zone like all others. */

import type { Format } from './format';

const MOMENT = /(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC/g;

/** Each as `23 Nov 2026, 15:05`. */
export function localized(text: string, format: Pick<Format, 'minute'>): string {
  return text.replace(MOMENT, (_whole, day: string, time: string) => format.minute(`${day}T${time}:00Z`));
}
