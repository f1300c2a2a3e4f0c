/** Which lines of the window hold a word: found in slices between frames, and for new lines only as they come. */

import { plainOf } from './logWindow';
import type { Line } from './lines';

const SLICE_LINES = 4_000;
export const MATCHES_MAX = 10_000;

export class Search {
  /** Ids of lines that match, top to bottom. */
  matches: number[] = [];
  isDone = true;
  private seenLow = 0;
  private seenHigh = -1;
  /** Matches in lines that may still change, or move to another place under another id. */
  private open: number[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly word: string,
    private readonly onFound: () => void,
  ) {}

  /** Look at lines that were not looked at yet. */
  look(lines: readonly Line[]): void {
    clearTimeout(this.timer);
    const first = lines[0]?.id ?? 0;
    const gone = new Set(this.open.filter((id) => indexOfId(lines, id) < 0));
    this.open = this.open.filter((id) => !gone.has(id) && lines[indexOfId(lines, id)]?.isOpen);
    // The newest may be gone too: older ones took their room, and what is read again comes under other ids.
    if (indexOfId(lines, this.seenHigh) < 0) this.matches = this.matches.filter((id) => indexOfId(lines, id) >= 0);
    else if (gone.size > 0 || (this.matches.length > 0 && (this.matches[0] as number) < first)) this.matches = this.matches.filter((id) => id >= first && !gone.has(id));
    this.slice(lines);
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private slice(lines: readonly Line[]): void {
    const word = this.word.toLowerCase();
    let looked = 0;
    const isKnown = (line: Line) => this.seenHigh >= this.seenLow && line.id >= this.seenLow && line.id <= this.seenHigh;
    const has = (line: Line) => plainOf(line).toLowerCase().includes(word);
    // Behind what is known, then before it.
    let from = lines.length;
    while (from > 0 && !isKnown(lines[from - 1] as Line)) from -= 1;
    if (from === 0) {
      this.seenLow = lines[0]?.id ?? 0;
      this.seenHigh = this.seenLow - 1;
      this.matches = [];
    }
    for (; from < lines.length && looked < SLICE_LINES; from += 1, looked += 1) {
      const line = lines[from] as Line;
      if (has(line) && this.matches.length < MATCHES_MAX) {
        this.matches.push(line.id);
        if (line.isOpen) this.open.push(line.id);
      }
      this.seenHigh = line.id;
    }
    const isBehindDone = from >= lines.length;
    const before: number[] = [];
    if (isBehindDone && (lines[0]?.id ?? 0) < this.seenLow) {
      let upTo = 0;
      while (upTo < lines.length && (lines[upTo] as Line).id < this.seenLow) upTo += 1;
      let at = upTo - 1;
      for (; at >= 0 && looked < SLICE_LINES; at -= 1, looked += 1) {
        const line = lines[at] as Line;
        if (has(line)) before.unshift(line.id);
        this.seenLow = line.id;
      }
      this.matches = [...before, ...this.matches].slice(0, MATCHES_MAX);
    }
    this.isDone = isBehindDone && (lines.length === 0 || (lines[0] as Line).id >= this.seenLow);
    if (!this.isDone) this.timer = setTimeout(() => this.slice(lines), 0);
    this.onFound();
  }
}

/** The index of the line with this id, or -1: ids grow from top to bottom. */
export function indexOfId(lines: readonly Line[], id: number): number {
  let low = 0;
  let high = lines.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const here = (lines[middle] as Line).id;
    if (here === id) return middle;
    if (here < id) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** Where a word stands in a plain text, from left to right. */
export function placesOf(plain: string, word: string, most = 200): [number, number][] {
  if (!word) return [];
  const low = plain.toLowerCase();
  const needle = word.toLowerCase();
  if (low.length !== plain.length) return []; // A letter that changes its length: found, but not marked.
  const places: [number, number][] = [];
  for (let at = low.indexOf(needle); at >= 0 && places.length < most; at = low.indexOf(needle, at + needle.length)) places.push([at, at + needle.length]);
  return places;
}
