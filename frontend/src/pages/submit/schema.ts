/**
 * The JSON Schema of job files, walked: what may stand at a path, and what is plainly wrong before the server has answered.
 *
 * It knows the words that our schema uses and no others, and compiles nothing: the page's policy forbids code made of text.
 */

import { pointerOf, isRecord, type Path, type Plain } from './spec';

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string | string[];
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: Plain[];
  const?: Plain;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  maxLength?: number;
  minLength?: number;
  required?: string[];
  description?: string;
  default?: Plain;
  examples?: Plain[];
}

export interface Wrong {
  pointer: string;
  /** What kind of thing is wrong, for words in the reader's language. */
  kind: 'key' | 'type' | 'choice' | 'shape' | 'range' | 'missing';
  /** What is allowed there. */
  allowed: string[];
  name: string;
}

const WRONG_MAX = 50;

/** The schemas that may hold at a path, with references followed and choices laid out; null is never one of them. */
export function schemasAt(root: Schema, path: Path): Schema[] {
  let found = branches(root, root);
  for (const part of path) {
    found = found.flatMap((schema) => {
      if (typeof part === 'number') return schema.items ? branches(root, schema.items) : [];
      const named = schema.properties?.[part];
      if (named) return branches(root, named);
      for (const [pattern, below] of Object.entries(schema.patternProperties ?? {})) if (matches(pattern, part)) return branches(root, below);
      return typeof schema.additionalProperties === 'object' ? branches(root, schema.additionalProperties) : [];
    });
  }
  return found;
}

/** A schema and all that it may be instead. A branch keeps the words of what it is a branch of. */
export function branches(root: Schema, schema: Schema): Schema[] {
  const followed = schema.$ref ? { ...schema, ...resolve(root, schema.$ref), description: schema.description ?? resolve(root, schema.$ref).description } : schema;
  const choices = followed.anyOf;
  if (!choices) return followed.type === 'null' ? [] : [followed];
  return choices.flatMap((choice) => branches(root, choice)).map((branch) => ({ ...branch, description: followed.description ?? branch.description, default: followed.default ?? branch.default, examples: followed.examples ?? branch.examples }));
}

function resolve(root: Schema, reference: string): Schema {
  return root.$defs?.[reference.replace('#/$defs/', '')] ?? {};
}

export function valuesOf(schema: Schema): Plain[] {
  if (schema.enum) return schema.enum;
  if (schema.const !== undefined) return [schema.const];
  if (schema.type === 'boolean') return [true, false];
  return [];
}

/** The values that the schema names for a path, as text. */
export function choicesAt(root: Schema, path: Path): string[] {
  return schemasAt(root, path).flatMap(valuesOf).map(String);
}

/** Everything that the schema refuses in these values, at most some dozens. */
export function check(root: Schema, values: Plain): Wrong[] {
  const found: Wrong[] = [];
  judge(root, branches(root, root), isNullable(root, root), values, [], found);
  return found.slice(0, WRONG_MAX);
}

function judge(root: Schema, options: Schema[], mayBeNull: boolean, value: Plain, path: Path, found: Wrong[]): void {
  if (found.length > WRONG_MAX || options.length === 0) return;
  const at = pointerOf(path);
  const name = String(path.at(-1) ?? '');
  if (value === null) {
    if (!mayBeNull && !options.some((option) => hasType(option, null))) found.push({ pointer: at, kind: 'type', allowed: typesOf(options), name });
    return;
  }
  const fitting = options.filter((option) => hasType(option, value));
  if (fitting.length === 0) {
    found.push({ pointer: at, kind: 'type', allowed: typesOf(options), name });
    return;
  }
  if (isRecord(value)) return judgeMapping(root, fitting, value, path, found);
  if (Array.isArray(value)) {
    const items = fitting.find((option) => option.items)?.items;
    if (items) value.forEach((each, index) => judge(root, branches(root, items), isNullable(root, items), each, [...path, index], found));
    return;
  }
  if (fitting.some((option) => scalarFits(option, value))) return;
  const choices = fitting.flatMap((option) => option.enum ?? (option.const === undefined ? [] : [option.const]));
  if (choices.length > 0 && fitting.every((option) => option.enum ?? option.const !== undefined)) found.push({ pointer: at, kind: 'choice', allowed: choices.map(String), name });
  else if (typeof value === 'number') found.push({ pointer: at, kind: 'range', allowed: [rangeText(fitting)], name });
  else found.push({ pointer: at, kind: 'shape', allowed: fitting.flatMap((option) => option.examples ?? []).filter((each) => typeof each !== 'object').map(String), name });
}

function judgeMapping(root: Schema, options: Schema[], value: Record<string, Plain>, path: Path, found: Wrong[]): void {
  const shape = options.find((option) => option.properties ?? option.patternProperties) ?? options[0];
  if (!shape) return;
  for (const [key, each] of Object.entries(value)) {
    const named = shape.properties?.[key] ?? Object.entries(shape.patternProperties ?? {}).find(([pattern]) => matches(pattern, key))?.[1];
    if (named) judge(root, branches(root, named), isNullable(root, named), each, [...path, key], found);
    else if (shape.additionalProperties === false) found.push({ pointer: pointerOf([...path, key]), kind: 'key', allowed: nearest(key, Object.keys(shape.properties ?? {})), name: key });
  }
  for (const key of shape.required ?? []) if (!(key in value)) found.push({ pointer: pointerOf(path), kind: 'missing', allowed: [], name: key });
}

function isNullable(root: Schema, schema: Schema): boolean {
  if (schema.$ref) return isNullable(root, resolve(root, schema.$ref));
  if (schema.anyOf) return schema.anyOf.some((choice) => isNullable(root, choice));
  return schema.type === 'null' || (Array.isArray(schema.type) && schema.type.includes('null'));
}

function hasType(schema: Schema, value: Plain): boolean {
  if (schema.type === undefined) return schema.enum === undefined || schema.enum.some((each) => typeof each === typeof value);
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  return types.some((type) => {
    if (type === 'null') return value === null;
    if (type === 'object') return isRecord(value);
    if (type === 'array') return Array.isArray(value);
    if (type === 'integer') return typeof value === 'number' && Number.isInteger(value);
    return typeof value === type;
  });
}

function scalarFits(schema: Schema, value: string | number | boolean): boolean {
  if (schema.enum && !schema.enum.includes(value)) return false;
  if (schema.const !== undefined && schema.const !== value) return false;
  if (typeof value === 'string') {
    if (schema.pattern && !matches(schema.pattern, value)) return false;
    return value.length <= (schema.maxLength ?? Infinity) && value.length >= (schema.minLength ?? 0);
  }
  if (typeof value === 'number') return value >= (schema.minimum ?? -Infinity) && value <= (schema.maximum ?? Infinity) && value > (schema.exclusiveMinimum ?? -Infinity);
  return true;
}

function typesOf(options: Schema[]): string[] {
  return [...new Set(options.flatMap((option) => (option.type === undefined ? (option.enum ? ['string'] : []) : option.type)))].filter((type) => type !== 'null');
}

function rangeText(options: Schema[]): string {
  const least = Math.min(...options.map((option) => option.minimum ?? option.exclusiveMinimum ?? -Infinity));
  const most = Math.max(...options.map((option) => option.maximum ?? Infinity));
  return `${Number.isFinite(least) ? least : '…'} – ${Number.isFinite(most) ? most : '…'}`;
}

const patterns = new Map<string, RegExp | null>();

function matches(pattern: string, text: string): boolean {
  let made = patterns.get(pattern);
  if (made === undefined) {
    try {
      made = new RegExp(pattern, 'u');
    } catch {
      made = null; // A pattern that this browser does not know is the server's to judge.
    }
    patterns.set(pattern, made);
  }
  return made === null || made.test(text);
}

/** Known keys that somebody may have meant. */
function nearest(key: string, known: string[]): string[] {
  const scored = known.map((each) => ({ each, distance: distance(key.toLowerCase(), each) })).filter((entry) => entry.distance <= Math.max(1, Math.floor(key.length / 3)));
  return scored.sort((one, other) => one.distance - other.distance).slice(0, 2).map((entry) => entry.each);
}

function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let at = 1; at <= one.length; at += 1) {
    const next = [at];
    for (let to = 1; to <= other.length; to += 1) next.push(Math.min((row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1, (row[to - 1] ?? 0) + (one[at - 1] === other[to - 1] ? 0 : 1)));
    row = next;
  }
  return row[other.length] ?? 0;
}
