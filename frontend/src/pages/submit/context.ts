/** Where in a job file the cursor is: told from the lines above it alone, because a file that is being written is seldom whole. */

interface Context {
  /** The keys that lead to the place; a number for an entry of a list. */
  path: (string | number)[];
  wants: 'key' | 'value';
  /** What is written of the word so far, and where it begins. */
  word: string;
  from: number;
  /** Keys that stand in the same mapping. */
  taken: Set<string>;
  isFlow: boolean;
}

const KEY = /^(\s*)((?:- +)*)(?:("?)([\w./-]+)\3\s*:(?=\s|$))?(.*)$/;

/** The place at a position of a text, or null inside of comments, block texts and quoted words. */
export function contextAt(text: string, position: number): Context | null {
  const start = text.lastIndexOf('\n', position - 1) + 1;
  const before = text.slice(start, position);
  if (/(^|\s)#/.test(before)) return null;
  const lines = text.slice(0, start).split('\n').slice(0, -1);
  const column = before.length - before.trimStart().length;
  const trimmed = before.trim();
  const around = outer(lines, trimmed === '' ? before.length : column, trimmed.startsWith('-'));
  if (around === null) return null;
  const match = KEY.exec(before);
  if (!match) return null;
  const [, , dashes = '', , key, rest = ''] = match;
  const path = [...around.path];
  if (dashes !== '') path.push(around.index);
  const flow = openFlow(key === undefined ? rest : rest);
  if (flow) return inFlow(key === undefined ? path : [...path, key], flow, position);
  if (key !== undefined) {
    const word = rest.trimStart();
    if (/^["'|>&*!]/.test(word)) return null;
    return { path: [...path, key], wants: 'value', word, from: position - word.length, taken: new Set(), isFlow: false };
  }
  const word = rest.trim();
  if (/\s/.test(word)) return null;
  // An entry of a list may be a word or the first key of a mapping: the schema decides which of the two it knows.
  const taken = new Set(siblings(text, start, column + dashes.length));
  return { path, wants: dashes !== '' && !around.isMappingList ? 'value' : 'key', word, from: position - word.length, taken, isFlow: false };
}

interface Around {
  path: (string | number)[];
  /** The place in its list of an entry that begins on this line. */
  index: number;
  isMappingList: boolean;
}

/** The mapping that a line of this indent stands in; null inside of a block text. */
function outer(lines: readonly string[], column: number, isEntry: boolean): Around | null {
  const path: (string | number)[] = [];
  let indent = column;
  let index = 0;
  let isCounting = isEntry;
  let isMappingList = false;
  for (let at = lines.length - 1; at >= 0; at -= 1) {
    const line = lines[at] ?? '';
    if (line.trim() === '' || line.trim().startsWith('#')) continue;
    const match = KEY.exec(line);
    if (!match) continue;
    const [, blank = '', dashes = '', , key, rest = ''] = match;
    const own = blank.length;
    if (isCounting && own === indent && dashes !== '') {
      index += 1;
      if (key !== undefined || rest.trim().startsWith('{')) isMappingList = true;
      continue;
    }
    const keyColumn = own + dashes.length;
    const isParent = key !== undefined && (keyColumn < indent || (isCounting && keyColumn === indent && dashes === ''));
    if (dashes !== '' && keyColumn <= indent && own < indent && !isCounting) {
      // The entry of a list that this line stands in: its keys are beside this one.
      if (keyColumn < indent && key !== undefined) path.unshift(key);
      path.unshift(count(lines, at, own));
      indent = own;
      isCounting = true;
      index = 0;
      continue;
    }
    if (!isParent || key === undefined) continue;
    if (/^\s*[|>][+-]?\d*\s*(#.*)?$/.test(rest)) return null;
    path.unshift(key);
    indent = own;
    isCounting = false;
    if (indent === 0) break;
  }
  return { path, index, isMappingList };
}

/** How many entries of the same list stand above the one at this line. */
function count(lines: readonly string[], from: number, indent: number): number {
  let found = 0;
  for (let at = from - 1; at >= 0; at -= 1) {
    const line = lines[at] ?? '';
    if (line.trim() === '') continue;
    const own = line.length - line.trimStart().length;
    if (own < indent || (own === indent && !line.trimStart().startsWith('-'))) break;
    if (own === indent) found += 1;
  }
  return found;
}

/** Keys of the mapping that a line stands in, above and below it. */
function siblings(text: string, start: number, indent: number): string[] {
  const lines = text.split('\n');
  const here = text.slice(0, start).split('\n').length - 1;
  const found: string[] = [];
  for (const step of [-1, 1]) {
    for (let at = here + step; at >= 0 && at < lines.length; at += step) {
      const line = lines[at] ?? '';
      if (line.trim() === '' || line.trim().startsWith('#')) continue;
      const match = KEY.exec(line);
      if (!match) continue;
      const column = (match[1] ?? '').length + (match[2] ?? '').length;
      if (column < indent) break;
      if (column === indent && match[4] !== undefined) found.push(match[4]);
      if (step === -1 && (match[2] ?? '') !== '' && column === indent) break;
    }
  }
  return found;
}

/** The part of a line inside of the innermost brackets that are still open. */
function openFlow(rest: string): { kind: '{' | '['; text: string; keys: (string | number)[] } | null {
  const stack: { kind: '{' | '['; start: number; key: string | null }[] = [];
  let quote = '';
  let key: string | null = null;
  let word = 0;
  for (let at = 0; at < rest.length; at += 1) {
    const sign = rest[at] as string;
    if (quote) {
      if (sign === quote) quote = '';
    } else if ((sign === '"' || sign === "'") && stack.length > 0) quote = sign;
    else if (sign === '{' || sign === '[') {
      if (stack.length === 0 && rest.slice(0, at).trim() !== '') return null;
      stack.push({ kind: sign, start: at + 1, key });
      key = null;
      word = at + 1;
    } else if (sign === '}' || sign === ']') stack.pop();
    else if (sign === ',') {
      key = null;
      word = at + 1;
    } else if (sign === ':' && stack.length > 0) key = rest.slice(word, at).trim().replaceAll('"', '');
  }
  const last = stack.at(-1);
  if (!last || quote) return null;
  return { kind: last.kind, text: rest.slice(last.start), keys: stack.slice(1).map((each) => each.key ?? 0) };
}

function inFlow(path: (string | number)[], flow: { kind: '{' | '['; text: string; keys: (string | number)[] }, position: number): Context {
  const here = [...path, ...flow.keys];
  const parts = flow.text.split(',');
  const last = parts.at(-1) ?? '';
  if (flow.kind === '[') {
    const word = last.trimStart();
    return { path: [...here, parts.length - 1], wants: 'value', word, from: position - word.length, taken: new Set(), isFlow: true };
  }
  const taken = new Set(parts.slice(0, -1).map((part) => (part.split(':')[0] ?? '').trim().replaceAll('"', '')));
  const at = last.indexOf(':');
  if (at === -1) {
    const word = last.trimStart();
    return { path: here, wants: 'key', word, from: position - word.length, taken, isFlow: true };
  }
  const word = last.slice(at + 1).trimStart();
  return { path: [...here, last.slice(0, at).trim()], wants: 'value', word, from: position - word.length, taken: new Set(), isFlow: true };
}
