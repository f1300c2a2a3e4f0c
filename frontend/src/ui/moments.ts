/** Between the API's times (UTC, ISO) and what `<input type="datetime-local">` holds: the reader's own time to the minute. */

const two = (value: number) => String(value).padStart(2, '0');

export function toLocalInput(moment: Date | string): string {
  const at = typeof moment === 'string' ? new Date(moment) : moment;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** Null: nothing was typed, or no time. */
export function fromLocalInput(text: string): string | null {
  const at = new Date(text);
  return text && !Number.isNaN(at.getTime()) ? at.toISOString() : null;
}
