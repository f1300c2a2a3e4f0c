/**
 * Colours of a terminal's text as plain data: SGR sequences alone count, everything else of a terminal is dropped.
 *
 * A job prints what it likes, also bytes meant to harm whoever looks: titles, links (OSC 8), cursor moves, answers. None of them
 * leaves this file; what does leave are runs of text with names of classes from a closed list.
 */

export interface Style {
  readonly bold: boolean;
  readonly faint: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
  readonly inverse: boolean;
  /** 0-15, or null: the default. Colours of 256 and of 24 bits are brought to the nearest of the sixteen. */
  readonly ink: number | null;
  readonly ground: number | null;
}

export interface Run {
  text: string;
  style: Style;
}

export const PLAIN: Style = { bold: false, faint: false, italic: false, underline: false, inverse: false, ink: null, ground: null };

// CSI with its parameters; strings (OSC, DCS, SOS, PM, APC) up to their end; two-byte escapes; a sequence that is cut off.
// eslint-disable-next-line no-control-regex
const SEQUENCE = /\x1b\[([0-9:;<=>?]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b\[[0-9:;<=>?]*[ -/]*$|\x1b[ -/]*(?:[0-~]|$)|\x9b([0-9:;<=>?]*)[ -/]*([@-~])/g;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// eslint-disable-next-line no-control-regex
const SPECIAL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** The text without any sequence or control character: what is searched, counted and copied. */
export function strip(text: string): string {
  return SPECIAL.test(text) ? text.replace(SEQUENCE, '').replace(CONTROL, '') : text;
}

/** Runs of one look each, and the look that the next line begins with. */
export function parse(text: string, start: Style = PLAIN): { runs: Run[]; end: Style } {
  if (!SPECIAL.test(text)) return { runs: text ? [{ text, style: start }] : [], end: start };
  const runs: Run[] = [];
  let style = start;
  let from = 0;
  const take = (piece: string) => {
    const clean = piece.replace(CONTROL, '');
    if (!clean) return;
    const last = runs.at(-1);
    if (last?.style === style) last.text += clean;
    else runs.push({ text: clean, style });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    take(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === 'm') style = turned(style, match[1] ?? '');
    else if (match[4] === 'm') style = turned(style, match[3] ?? '');
  }
  take(text.slice(from));
  return { runs, end: style };
}

/** The look after a text, without making its runs. */
export function styleAfter(text: string, start: Style): Style {
  const last = text.lastIndexOf('\x1b');
  if (!text.includes('\x9b')) {
    if (last < 0) return start;
    if (text.startsWith('[0m', last + 1) || text.startsWith('[m', last + 1)) return PLAIN; // As nearly every line ends.
  }
  let style = start;
  for (const match of text.matchAll(SEQUENCE)) {
    if (match[2] === 'm') style = turned(style, match[1] ?? '');
    else if (match[4] === 'm') style = turned(style, match[3] ?? '');
  }
  return style;
}

export function isSameStyle(one: Style, other: Style): boolean {
  return one === other || (Object.keys(PLAIN) as (keyof Style)[]).every((part) => one[part] === other[part]);
}

function turned(style: Style, parameters: string): Style {
  if (/[<=>?]/.test(parameters)) return style; // Private: not a look.
  const codes = parameters.split(/[;:]/).map((part) => (part === '' ? 0 : Number(part)));
  const next = { ...style };
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    if (code === 38 || code === 48) {
      const kind = codes[index + 1];
      let color: number | null = null;
      if (kind === 5) {
        color = sixteenOf(codes[index + 2] ?? 0);
        index += 2;
      } else if (kind === 2) {
        color = nearest(codes[index + 2] ?? 0, codes[index + 3] ?? 0, codes[index + 4] ?? 0);
        index += 4;
      } else break;
      if (code === 38) next.ink = color;
      else next.ground = color;
    } else apply(next, code);
  }
  const isPlain = !next.bold && !next.faint && !next.italic && !next.underline && !next.inverse && next.ink === null && next.ground === null;
  return isPlain ? PLAIN : next;
}

type Mutable = { -readonly [K in keyof Style]: Style[K] };

function apply(style: Mutable, code: number): void {
  if (code === 0) Object.assign(style, PLAIN);
  else if (code === 1) style.bold = true;
  else if (code === 2) style.faint = true;
  else if (code === 3) style.italic = true;
  else if (code === 4) style.underline = true;
  else if (code === 7) style.inverse = true;
  else if (code === 22) style.bold = style.faint = false;
  else if (code === 23) style.italic = false;
  else if (code === 24) style.underline = false;
  else if (code === 27) style.inverse = false;
  else if (code >= 30 && code <= 37) style.ink = code - 30;
  else if (code === 39) style.ink = null;
  else if (code >= 40 && code <= 47) style.ground = code - 40;
  else if (code === 49) style.ground = null;
  else if (code >= 90 && code <= 97) style.ink = code - 82;
  else if (code >= 100 && code <= 107) style.ground = code - 92;
}

function sixteenOf(code: number): number {
  if (code < 16) return Math.max(0, code);
  if (code >= 232) {
    const grey = 8 + Math.min(23, code - 232) * 10;
    return nearest(grey, grey, grey);
  }
  const level = (part: number) => (part === 0 ? 0 : 55 + part * 40);
  const cube = code - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** The nearest of the sixteen by hue and brightness: bit 0 is red, bit 1 green, bit 2 blue, bit 3 bright. */
function nearest(red: number, green: number, blue: number): number {
  const most = Math.max(red, green, blue);
  if (most < 48) return 0;
  const least = Math.min(red, green, blue);
  if (most - least < 32) return most > 200 ? 15 : most > 140 ? 7 : 8;
  const half = (most + least) / 2;
  const hue = (red > half ? 1 : 0) | (green > half ? 2 : 0) | (blue > half ? 4 : 0);
  return hue + (most > 200 ? 8 : 0);
}
