/**
 * A job file as text, and its parts by name: what the form shows and changes of it.
 *
 * The text is the truth. A change of the form is a change of the text that leaves comments, order and everything that the form does not
 * know as they are; where only one word changes, only that word of the text does.
 */

import { isMap, isNode, isScalar, isSeq, parseDocument, stringify, YAMLMap, type Document, type Node, type Pair } from 'yaml';

export type Path = readonly (string | number)[];
export type Plain = string | number | boolean | null | Plain[] | { [key: string]: Plain };

const WRITTEN = { lineWidth: 0, flowCollectionPadding: false } as const;

/** The order in which new keys are put between those that are there. */
const ORDER = [
  'name', 'kind', 'queue', 'pool', 'cluster', 'image', 'code', 'workdir', 'framework', 'roles', 'command', 'replicas', 'resources', 'ports', 'env', 'secrets', 'mounts', 'outputs',
  'placement', 'priority', 'max_runtime', 'retry', 'checkpoint', 'completion', 'array', 'after', 'after_ok', 'after_any', 'hold', 'start_after', 'labels', 'tags',
]; // prettier-ignore

export function parse(text: string): Document.Parsed {
  return parseDocument(text, { version: '1.2', schema: 'core', uniqueKeys: true, merge: false, prettyErrors: false });
}

/** The document as values; null where it is none that can be read, or no mapping. */
export function read(document: Document.Parsed): Record<string, Plain> | null {
  if (document.errors.length > 0) return null;
  if (document.contents === null) return {};
  if (!isMap(document.contents)) return null;
  try {
    return document.toJS({ maxAliasCount: 0 }) as Record<string, Plain>;
  } catch {
    return null;
  }
}

/** The text with the value at a path set, or taken out when it is undefined. The text must be readable. */
export function change(text: string, path: Path, value: Plain | undefined): string {
  const document = parse(text);
  if (value === undefined) {
    remove(document, path);
    return write(document);
  }
  const node = document.getIn(path, true);
  if (isScalar(node) && isPlainScalar(value)) {
    const spliced = splice(text, node, path, value);
    if (spliced !== null) return spliced;
    node.value = value;
    if (typeof value === 'string' && value.includes('\n')) node.type = 'BLOCK_LITERAL';
    else if (typeof value === 'string' && node.type !== 'QUOTE_DOUBLE' && node.type !== 'QUOTE_SINGLE') node.type = undefined;
    delete node.source;
    return write(document);
  }
  put(document, path, value);
  return write(document);
}

/** The text with uploaded code, or without it. One that cannot be read stays as it is. */
export function withSnapshot(text: string, sha256: string | null): string {
  if (read(parse(text)) === null) return text;
  return change(text, ['code'], sha256 === null ? undefined : { snapshot: sha256 });
}

/** Several changes as one. */
export function changeAll(text: string, changes: readonly (readonly [Path, Plain | undefined])[]): string {
  return changes.reduce((now, [path, value]) => change(now, path, value), text);
}

/** The text with a key called otherwise, where it stands. */
export function rename(text: string, path: Path, name: string): string {
  const document = parse(text);
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  const pair = isMap(parent) ? parent.items.find((item) => keyOf(item) === String(path.at(-1))) : undefined;
  if (!pair || (isMap(parent) && parent.has(name))) return text;
  const range = rangeOfNode(pair.key);
  if (isScalar(pair.key)) pair.key.value = name;
  else pair.key = document.createNode(name) as never;
  const made = range && text.slice(0, range[0]) + stringify(name, WRITTEN).trimEnd() + text.slice(range[1]);
  return made !== null && isSame(parse(made), document) ? made : write(document);
}

/** Where a role's own keys stand: at the top for a job of one role, else below `roles`. */
export function roleBase(values: Record<string, Plain>, role: string): Path {
  return isRecord(values.roles) ? ['roles', role] : [];
}

export function rolesOf(values: Record<string, Plain>): { name: string; role: Record<string, Plain> }[] {
  if (isRecord(values.roles)) return Object.entries(values.roles).map(([name, role]) => ({ name, role: isRecord(role) ? role : {} }));
  return [{ name: 'worker', role: values }];
}

const SHORT = ['replicas', 'resources', 'command', 'ports'];

/** The text with one more role. What stood at the top for the only one goes below its name. */
export function addRole(text: string): string {
  const document = parse(text);
  const top = document.contents;
  if (!isMap(top)) return text;
  if (!isMap(document.getIn(['roles'], true))) {
    const worker = new YAMLMap();
    const moved = top.items.filter((item) => SHORT.includes(keyOf(item)));
    top.items = top.items.filter((item) => !moved.includes(item));
    worker.items = moved as never;
    const roles = new YAMLMap();
    roles.set(document.createNode('worker'), worker);
    top.delete('roles');
    place(document, top as never, 'roles', roles);
  }
  const roles = document.getIn(['roles'], true);
  if (!isMap(roles)) return text;
  const name = ['worker', 'server', 'helper'].find((each) => !roles.has(each)) ?? `role-${roles.items.length + 1}`;
  const made = document.createNode({ replicas: 1, resources: { cpu: 1, memory: '1Gi' }, command: 'echo "$BERTH_ROLE $BERTH_INDEX"' });
  const resources = made.get('resources', true);
  if (isMap(resources)) resources.flow = true;
  roles.set(document.createNode(name), made);
  return write(document);
}

/** A spec as the API keeps it, as the text of a job file that people read: sizes and times with units. */
export function writeSpec(spec: Record<string, unknown>): string {
  const ordered: Record<string, unknown> = {};
  const known = Object.keys(spec).sort((one, other) => rank(one) - rank(other));
  for (const key of known) ordered[key] = key === 'max_runtime' ? time(spec[key]) : spec[key];
  if (ordered.priority === 500) delete ordered.priority;
  if (ordered.image === 'host') delete ordered.image;
  const roles = ordered.roles;
  if (isRecord(roles)) {
    const shown: Record<string, unknown> = {};
    for (const [name, role] of Object.entries(roles)) shown[name] = isRecord(role) ? { ...pick(role, ['replicas', 'resources', 'command']), ...(isRecord(role.resources) ? { resources: sizes(role.resources) } : {}) } : role;
    ordered.roles = shown;
    if (Object.keys(shown).length === 1 && isRecord(shown.worker) && Object.keys(shown.worker).every((key) => SHORT.includes(key))) {
      const flat: Record<string, unknown> = {};
      for (const [key, value] of Object.entries(ordered)) {
        if (key === 'roles') Object.assign(flat, pick(shown.worker, ['command', 'replicas', 'resources']));
        else flat[key] = value;
      }
      return stringify(flat, WRITTEN);
    }
  }
  return stringify(ordered, WRITTEN);
}

/** The same job with its only role below `roles`, as the API keeps it: what a file says in short, and in full, compares as one. */
export function inFull(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  if ('roles' in values || !SHORT.some((key) => key in values)) return { ...values };
  const worker: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(values)) (SHORT.includes(key) ? worker : rest)[key] = value;
  return { ...rest, roles: { worker } };
}

/** What a file holds, as the text of a job file. JSON becomes YAML; YAML stays as it is. */
export function imported(text: string): string {
  const clean = text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
  if (!/^\s*\{/.test(clean)) return clean;
  try {
    const value: unknown = JSON.parse(clean);
    if (isRecord(value)) return writeSpec(isRecord(value.spec) && !('command' in value) && !('roles' in value) ? value.spec : value);
  } catch {
    // No JSON, then: a flow mapping of YAML is one, too.
  }
  return clean;
}

/** Where in the text the part at a pointer stands, or the nearest part around it; `key` for the key's own place. */
export function rangeOf(document: Document.Parsed, pointer: string, wants: 'value' | 'key' = 'value'): [number, number] {
  const parts = partsOf(pointer);
  let node: unknown = document.contents;
  let found: [number, number] = [0, 0];
  for (const part of parts) {
    let next: unknown;
    let own: [number, number] | null = null;
    if (isMap(node)) {
      const pair = node.items.find((item) => keyOf(item) === part);
      if (!pair) break;
      own = rangeOfNode(pair.key);
      next = pair.value;
      if (wants === 'value') own = (isScalar(next) && next.value !== null ? rangeOfNode(next) : null) ?? own;
    } else if (isSeq(node)) {
      next = node.items[Number(part)];
      own = rangeOfNode(next);
    }
    if (!own) break;
    found = own;
    node = next;
  }
  return found;
}

export function partsOf(pointer: string): string[] {
  return pointer === '' ? [] : pointer.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

export function pointerOf(path: Path): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

export function isRecord(value: unknown): value is Record<string, Plain> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const BYTES: Record<string, number> = { Pi: 1024 ** 5, Ti: 1024 ** 4, Gi: 1024 ** 3, Mi: 1024 ** 2, Ki: 1024 };

/** Bytes in the largest unit that leaves a whole number: `16Gi`. */
export function bytesText(bytes: number): string | number {
  for (const [unit, size] of Object.entries(BYTES)) if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  return bytes;
}

const SECONDS: Record<string, number> = { d: 86_400, h: 3_600, m: 60 };

function time(value: unknown): unknown {
  if (typeof value !== 'number') return value;
  for (const [unit, size] of Object.entries(SECONDS)) if (value >= size && value % size === 0) return `${value / size}${unit}`;
  return value;
}

function sizes(resources: Record<string, Plain>): Record<string, Plain> {
  const shown: Record<string, Plain> = { ...resources };
  for (const key of ['memory', 'shm']) {
    const value = shown[key];
    if (typeof value === 'number') shown[key] = bytesText(value);
  }
  return shown;
}

function pick(record: Record<string, Plain>, first: readonly string[]): Record<string, Plain> {
  const ordered: Record<string, Plain> = {};
  for (const key of [...first, ...Object.keys(record)]) if (key in record) ordered[key] = record[key] as Plain;
  return ordered;
}

function isPlainScalar(value: Plain): value is string | number | boolean | null {
  return typeof value !== 'object' || value === null;
}

/** The text with one scalar of one line written anew in place; null where that would not mean what is asked. */
function splice(text: string, node: { range?: [number, number, number] | null; type?: string }, path: Path, value: string | number | boolean | null): string | null {
  if (!node.range || node.type === 'BLOCK_LITERAL' || node.type === 'BLOCK_FOLDED') return null;
  const [from, to] = node.range;
  if (from === to || text.slice(from, to).includes('\n') || (typeof value === 'string' && value.includes('\n'))) return null;
  const options = node.type === 'QUOTE_DOUBLE' ? ({ defaultStringType: 'QUOTE_DOUBLE' } as const) : node.type === 'QUOTE_SINGLE' ? ({ defaultStringType: 'QUOTE_SINGLE' } as const) : {};
  const words = stringify(value, { ...WRITTEN, ...options }).trimEnd();
  if (words.includes('\n')) return null;
  const made = text.slice(0, from) + words + text.slice(to);
  const before = parse(text);
  before.setIn(path, value);
  return isSame(parse(made), before) ? made : null;
}

/** Whether a text that was just read says what a document does. */
function isSame(made: Document.Parsed, meant: Document.Parsed): boolean {
  return made.errors.length === 0 && JSON.stringify(made.toJS()) === JSON.stringify(meant.toJS());
}

function put(document: Document.Parsed, path: Path, value: Plain): void {
  const parents = path.slice(0, -1);
  if (document.contents === null) document.contents = new YAMLMap() as never;
  for (let depth = 1; depth <= parents.length; depth += 1) {
    const at = path.slice(0, depth);
    const found = document.getIn(at, true);
    if (isMap(found) || isSeq(found)) continue;
    const made = typeof path[depth] === 'number' ? document.createNode([]) : new YAMLMap();
    if (typeof path[depth] !== 'number' && path[depth - 1] === 'resources') (made as YAMLMap).flow = true;
    set(document, at, made);
  }
  set(document, path, document.createNode(value));
}

function set(document: Document.Parsed, path: Path, node: Node): void {
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  const key = path.at(-1) as string | number;
  if (isMap(parent) && path.length === 1 && !parent.has(key)) place(document, parent as never, String(key), node);
  else document.setIn(path, node);
}

/** A new key at the top, behind those that usually stand before it. */
function place(document: Document.Parsed, top: YAMLMap<Node, Node>, key: string, node: Node): void {
  const pair = document.createPair(key, node) as Pair<Node, Node>;
  const mine = rank(key);
  let at = -1;
  top.items.forEach((item, index) => {
    if (rank(keyOf(item)) <= mine) at = index;
  });
  top.items.splice(at + 1, 0, pair);
}

function remove(document: Document.Parsed, path: Path): void {
  if (document.getIn(path, true) === undefined) return;
  document.deleteIn(path);
  for (let depth = path.length - 1; depth > 0; depth -= 1) {
    const at = path.slice(0, depth);
    const parent = document.getIn(at, true);
    const isEmpty = (isMap(parent) || isSeq(parent)) && parent.items.length === 0;
    if (!isEmpty || (depth === 2 && path[0] === 'roles')) return;
    document.deleteIn(at);
  }
}

function write(document: Document.Parsed): string {
  const text = document.toString(WRITTEN);
  return text === '{}\n' || text === 'null\n' ? '' : text;
}

function rank(key: string): number {
  const at = ORDER.indexOf(key);
  return at === -1 ? ORDER.length : at;
}

function keyOf(item: { key: unknown }): string {
  return String(isScalar(item.key) ? item.key.value : item.key);
}

function rangeOfNode(node: unknown): [number, number] | null {
  if (!isNode(node) || !node.range) return null;
  return [node.range[0], node.range[1]];
}
