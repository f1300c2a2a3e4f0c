/** Where each line stands: at once for lines of one height, by counted characters for wrapped ones. */

import { plainOf } from './logWindow';
import type { Line } from './lines';

export const ROW_PX = 20;
export const SHOWN_CHARS = 2_000; // Of one line, until somebody asks for all of it.
export const SHOWN_CHARS_MAX = 200_000;

const widths = new WeakMap<Line, { text: string; width: number }>();

/** How many columns a line takes: wide letters take two, a tab up to eight. */
function widthOf(line: Line): number {
  const known = widths.get(line);
  if (known && known.text === line.text) return known.width;
  const plain = plainOf(line);
  let width = plain.length;
  // eslint-disable-next-line no-control-regex
  if (/[^\x20-\x7e]/.test(plain)) {
    width = 0;
    for (const letter of plain) {
      const code = letter.codePointAt(0) ?? 0;
      width += letter === '\t' ? 8 - (width % 8) : code >= 0x1100 && (code <= 0x115f || (code >= 0x2e80 && code <= 0xffdc && code !== 0xfffd) || code >= 0x1f300) ? 2 : 1;
    }
  }
  widths.set(line, { text: line.text, width });
  return width;
}

interface Layout {
  total: number;
  top: (index: number) => number;
  /** The line at this height. */
  at: (height: number) => number;
}

export function layoutOf(lines: readonly Line[], columns: number | null, expanded: ReadonlySet<number>): Layout {
  const count = lines.length;
  if (columns === null) {
    return { total: count * ROW_PX, top: (index) => index * ROW_PX, at: (height) => Math.min(Math.max(0, count - 1), Math.max(0, Math.floor(height / ROW_PX))) };
  }
  const tops = new Int32Array(count + 1);
  for (let index = 0; index < count; index += 1) {
    const line = lines[index] as Line;
    const width = Math.min(widthOf(line), expanded.has(line.id) ? SHOWN_CHARS_MAX : SHOWN_CHARS);
    tops[index + 1] = (tops[index] as number) + Math.max(1, Math.ceil(width / columns)) * ROW_PX;
  }
  const at = (height: number) => {
    let low = 0;
    let high = Math.max(0, count - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((tops[middle] as number) <= height) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  return { total: tops[count] as number, top: (index) => tops[Math.min(index, count)] as number, at };
}
