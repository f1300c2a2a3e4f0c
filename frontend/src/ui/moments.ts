/** Between the API's times (UTC, ISO) and what `<input type="datetime-local">` holds: the reader's own time to the minute. */

import { atWall, wallOf } from '@/text/zone';

const two = (value: number) => String(value).padStart(2, '0');
const TYPED = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})/;

export function toLocalInput(moment: Date | string): string {
  const at = wallOf(typeof moment === 'string' ? new Date(moment) : moment);
  return `${at.year}-${two(at.month)}-${two(at.day)}T${two(at.hour)}:${two(at.minute)}`;
}

/** Null: nothing was typed, or no time. */
export function fromLocalInput(text: string): string | null {
  const parts = TYPED.exec(text)?.slice(1).map(Number);
  if (!parts) return null;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0] = parts;
  const at = atWall(year, month, day, hour, minute);
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}
