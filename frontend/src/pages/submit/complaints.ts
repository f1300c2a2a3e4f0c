/** Everything that is wrong with a job file, each at its place in the text: from the parser, the schema, and the server. */

import type { FieldProblem } from '@/api/problem';
import type { Translate } from '@/text/language';

import type { Mark } from './Editor';
import type { Placed } from './PlanPanel';
import { parse, partsOf, rangeOf, read, type Plain } from './spec';
import { check, type Schema, type Wrong } from './schema';
import type { complaints as words } from './complaintsText';

type T = Translate<keyof typeof words.en>;

export interface Reading {
  values: Record<string, Plain> | null;
  /** What keeps it from being read at all, in words. */
  broken: Placed[];
}

function lineOf(text: string, position: number): number {
  let line = 1;
  for (let at = text.indexOf('\n'); at !== -1 && at < position; at = text.indexOf('\n', at + 1)) line += 1;
  return line;
}

/** The text as values, or why not. */
export function readJob(text: string, t: T): Reading & { marks: Mark[] } {
  const document = parse(text);
  const marks: Mark[] = document.errors.map((error) => ({ from: error.pos[0], to: error.pos[1], message: sayBroken(error.code, t), severity: 'error' }));
  const values = read(document);
  if (values === null && marks.length === 0) marks.push({ from: 0, to: Math.min(text.length, 1), message: t('notMapping'), severity: 'error' });
  return { values, marks, broken: marks.map((mark) => ({ path: '', code: 'syntax', message: mark.message, line: lineOf(text, mark.from) })) };
}

function sayBroken(code: string, t: T): string {
  if (code === 'BAD_INDENT') return t('indent');
  if (code === 'TAB_AS_INDENT') return t('tab');
  if (code === 'DUPLICATE_KEY') return t('duplicate');
  if (code === 'MISSING_CHAR') return t('missingChar');
  if (code === 'MULTILINE_IMPLICIT_KEY' || code === 'BLOCK_AS_IMPLICIT_KEY' || code === 'KEY_OVER_1024_CHARS') return t('keyAlone');
  if (code === 'UNEXPECTED_TOKEN' || code === 'MULTIPLE_DOCS' || code === 'BAD_SCALAR_START') return t('unexpected');
  if (code === 'BAD_ALIAS' || code === 'TAG_RESOLVE_FAILED' || code === 'MULTIPLE_ANCHORS' || code === 'MULTIPLE_TAGS') return t('noAlias');
  return t('notYaml');
}

/** What the schema refuses: told at once, until the server has said it better. */
export function schemaProblems(schema: Schema | undefined, values: Record<string, Plain> | null, t: T): FieldProblem[] {
  if (!schema || values === null) return [];
  return check(schema, values).map((wrong) => ({ path: wrong.kind === 'missing' ? `${wrong.pointer}/${wrong.name}` : wrong.pointer, code: wrong.kind, message: say(wrong, t), hint: hint(wrong, t) }));
}

function say(wrong: Wrong, t: T): string {
  const name = wrong.name || t('thisFile');
  if (wrong.kind === 'key') return t('unknownKey', { name });
  if (wrong.kind === 'missing') return t('missing', { name });
  if (wrong.kind === 'choice') return t('choice', { name, allowed: wrong.allowed.join(', ') });
  if (wrong.kind === 'range') return t('range', { name, allowed: wrong.allowed.join(', ') });
  if (wrong.kind === 'type') return t('type', { name, allowed: wrong.allowed.map((type) => (type in TYPES ? t(TYPES[type as keyof typeof TYPES]) : type)).join(t('or')) });
  return t('shape', { name });
}

const TYPES = { string: 'aText', integer: 'aNumber', number: 'aNumber', boolean: 'aTruth', object: 'aMapping', array: 'aList' } as const;

function hint(wrong: Wrong, t: T): string | null {
  if (wrong.kind === 'key' && wrong.allowed.length > 0) return t('didYouMean', { allowed: wrong.allowed.join(', ') });
  if (wrong.kind === 'shape' && wrong.allowed.length > 0) return t('suchAs', { allowed: wrong.allowed.join(', ') });
  return null;
}

/** Problems at their lines. A key that is not known is marked itself, all else by its value. */
export function placed(text: string, problems: readonly FieldProblem[]): { marks: Mark[]; list: Placed[] } {
  const document = parse(text);
  const marks: Mark[] = [];
  const list: Placed[] = [];
  for (const problem of problems) {
    const stated = (problem as { line?: number | null }).line;
    const isKey = problem.code === 'unknown_key' || problem.code === 'key' || problem.code === 'shorthand';
    let [from, to] = rangeOf(document, problem.path, isKey ? 'key' : 'value');
    if (typeof stated === 'number' && partsOf(problem.path).length === 0) {
      from = startOfLine(text, stated);
      to = from;
    }
    if (from === to) to = endOfLine(text, from);
    marks.push({ from, to, severity: 'error', message: [problem.message, problem.hint].filter(Boolean).join('\n') });
    list.push({ ...problem, line: lineOf(text, from + 1) });
  }
  return { marks, list };
}

function startOfLine(text: string, line: number): number {
  let at = 0;
  for (let count = 1; count < line; count += 1) {
    const next = text.indexOf('\n', at);
    if (next === -1) return at;
    at = next + 1;
  }
  return at;
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\n', from);
  return end === -1 ? text.length : end;
}
