/** What may be written at the cursor, and what a key means: from the schema, and from the names that the tenant has. */

import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete';

import { contextAt } from './context';
import { parse } from './spec';
import { schemasAt, valuesOf, type Schema } from './schema';
import { isMap, isPair, isScalar, visit } from 'yaml';

// Names by the place at which they may stand, such as `queue`; a star stands for any part of it.
export type Names = Readonly<Record<string, readonly string[]>>;

export function complete(context: CompletionContext, schema: Schema | undefined, names: Names): CompletionResult | null {
  if (!schema) return null;
  const text = context.state.doc.toString();
  const here = contextAt(text, context.pos);
  if (!here) return null;
  if (!context.explicit && here.word === '' && here.wants === 'key') return null;
  const options = here.wants === 'key' ? keysAt(schema, here.path, here.taken, here.isFlow) : valuesAt(schema, here.path, names);
  // A word that is whole already is not completed: Enter then ends the line, as it says.
  const isWhole = (word: string) => options.some((option) => option.label === word);
  if (options.length === 0 || (!context.explicit && isWhole(here.word))) return null;
  return { from: here.from, options, validFor: (word) => /^[\w./:-]*$/.test(word) && !isWhole(word) };
}

function keysAt(root: Schema, path: readonly (string | number)[], taken: ReadonlySet<string>, isFlow: boolean): Completion[] {
  const found = new Map<string, Completion>();
  for (const schema of schemasAt(root, path)) {
    for (const [key, below] of Object.entries(schema.properties ?? {})) {
      if (taken.has(key) || found.has(key)) continue;
      const kinds = schemasAt(root, [...path, key]);
      const isNested = !isFlow && kinds.length > 0 && kinds.every((each) => each.type === 'object');
      found.set(key, { label: key, detail: kindText(kinds), info: infoText(below, kinds), apply: isNested ? `${key}:\n${indentOf(path)}  ` : `${key}: `, type: 'property' });
    }
  }
  return [...found.values()];
}

function indentOf(path: readonly (string | number)[]): string {
  return '  '.repeat(path.length);
}

function valuesAt(root: Schema, path: readonly (string | number)[], names: Names): Completion[] {
  const kinds = schemasAt(root, path);
  const place = path.map((part) => (typeof part === 'number' ? '*' : part)).join('/');
  const known = Object.entries(names).find(([pattern]) => fits(pattern, place))?.[1] ?? [];
  const choices = kinds.flatMap(valuesOf).map(String);
  const examples = choices.length === 0 ? kinds.flatMap((each) => each.examples ?? []).filter((each) => typeof each !== 'object').map(String) : [];
  const labels = [...new Set([...known, ...choices, ...examples])];
  return labels.map((label) => ({ label, type: 'enum', info: kinds[0]?.description, detail: known.includes(label) ? '' : examples.includes(label) ? 'e.g.' : '' }));
}

function fits(pattern: string, place: string): boolean {
  const parts = pattern.split('/');
  const found = place.split('/');
  return parts.length === found.length && parts.every((part, index) => part === '*' || part === found[index]);
}

/** What the key under the pointer of the mouse means. */
export function describe(text: string, position: number, schema: Schema | undefined): { from: number; to: number; text: string } | null {
  if (!schema) return null;
  const document = parse(text);
  let found: { from: number; to: number; path: (string | number)[] } | null = null;
  visit(document, {
    Pair: (_key, pair, ancestors) => {
      if (!isScalar(pair.key) || !pair.key.range) return undefined;
      const [from, to] = pair.key.range;
      if (position < from || position > to) return undefined;
      found = { from, to, path: [...pathOf(ancestors), String(pair.key.value)] };
      return visit.BREAK;
    },
  });
  const hit = found as { from: number; to: number; path: (string | number)[] } | null;
  if (!hit) return null;
  const kinds = schemasAt(schema, hit.path);
  const words = infoText(kinds[0], kinds);
  return words ? { from: hit.from, to: hit.to, text: words } : null;
}

function pathOf(ancestors: readonly unknown[]): (string | number)[] {
  const path: (string | number)[] = [];
  ancestors.forEach((ancestor, index) => {
    if (isPair(ancestor)) path.push(isScalar(ancestor.key) ? String(ancestor.key.value) : '');
    else if (typeof ancestor === 'object' && ancestor !== null && 'items' in ancestor && !isMap(ancestor)) {
      const next = ancestors[index + 1];
      const at = (ancestor.items as unknown[]).indexOf(next);
      if (at !== -1) path.push(at);
    }
  });
  return path;
}

function kindText(kinds: readonly Schema[]): string {
  const choices = kinds.flatMap((each) => each.enum ?? []);
  if (choices.length > 0 && choices.length <= 4) return choices.join(' | ');
  const types = new Set(kinds.flatMap((each) => each.type ?? []));
  types.delete('null');
  return [...types].join(' | ');
}

function infoText(schema: Schema | undefined, kinds: readonly Schema[]): string {
  const words = schema?.description ?? kinds[0]?.description ?? '';
  const example = (schema?.examples ?? kinds.flatMap((each) => each.examples ?? [])).map((each) => (typeof each === 'object' ? JSON.stringify(each) : String(each)));
  return [words, ...(example.length > 0 ? [`→ ${[...new Set(example)].slice(0, 3).join(', ')}`] : [])].filter(Boolean).join('\n');
}

