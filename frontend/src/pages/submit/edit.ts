/** What every part of the form gets: the job as values, ways to change its text, and what is wrong where. */

import { createElement, type ReactNode } from 'react';

import type { FieldProblem } from '@/api/problem';
import { Said } from '@/ui/Said';

import type { Path, Plain } from './spec';

export interface Edit {
  values: Record<string, Plain>;
  set: (path: Path, value: Plain | undefined) => void;
  setAll: (changes: readonly (readonly [Path, Plain | undefined])[]) => void;
  rename: (path: Path, name: string) => void;
  addRole: () => void;
  /** What is wrong at a pointer, or at what stands below it where the form has no field of its own for that. */
  problem: (pointer: string, below?: boolean) => ReactNode;
}

export function makeProblem(problems: readonly FieldProblem[]): Edit['problem'] {
  return (pointer, below = false) => {
    const found = problems.find((entry) => entry.path === pointer || (below && entry.path.startsWith(`${pointer}/`)));
    return found && createElement(Said, { text: [found.message, found.hint] });
  };
}

/** Names that the form offers. What is not listed may be typed all the same. */
export interface Offers {
  /** Where a folder of code is chosen. */
  folder: ReactNode;
  tenants: { value: string; label: string }[];
  tenant: string;
  /** Which of these were not all read: the rest is searched for as somebody types. */
  hasMore: { images: boolean; volumes: boolean };
  queues: string[];
  topQueue: string;
  images: string[];
  volumes: string[];
  secrets: string[];
  models: string[];
}

export function textOf(value: Plain | undefined): string {
  return typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
}

export function listOf(value: Plain | undefined): string[] {
  return Array.isArray(value) ? value.map((each) => textOf(each)) : [];
}
