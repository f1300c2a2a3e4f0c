/** Invitations for everybody that an import made: one each, a few at once, and the links as a file to hand out. */

import { api, take } from '@/api/client';
import { asProblem, type Problem } from '@/api/problem';
import type { Cell } from '@/ui/files';

const AT_ONCE = 4;

export interface Person {
  name: string;
  email: string;
  tenant: string;
  role: 'viewer' | 'member' | 'manager';
}

export interface Invited {
  person: Person;
  /** Shown by the server once: it is in this answer and nowhere else. */
  link: string | null;
  problem: Problem | null;
}

/** The cells of a CSV text (RFC 4180), line by line; empty lines are left out. */
export function readCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = '';
  let isQuoted = false;
  const closeRow = () => {
    row.push(cell);
    if (row.some((each) => each.trim() !== '')) rows.push(row);
    row = [];
    cell = '';
  };
  const clean = text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
  for (let at = 0; at < clean.length; at += 1) {
    const sign = clean[at] ?? '';
    if (isQuoted) {
      if (sign !== '"') cell += sign;
      else if (clean[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else isQuoted = false;
    } else if (sign === '"' && cell === '') isQuoted = true;
    else if (sign === ',') {
      row.push(cell);
      cell = '';
    } else if (sign === '\n') closeRow();
    else cell += sign;
  }
  closeRow();
  return rows;
}

/** Who of a file is new and can be invited: one entry for each, by the first of their lines that names a tenant. */
export function newPeople(text: string, created: ReadonlySet<string>): Person[] {
  const [heading = [], ...rows] = readCsv(text);
  const at = (name: string) => heading.findIndex((cell) => cell.trim().toLowerCase() === name);
  const [name, email, tenant, role] = [at('name'), at('email'), at('tenant'), at('role')];
  const people = new Map<string, Person>();
  for (const row of rows) {
    const read = (index: number) => row[index]?.trim() ?? '';
    const person = { name: read(name), email: read(email), tenant: read(tenant), role: roleOf(read(role)) };
    if (created.has(person.name) && person.email && person.tenant && !people.has(person.name)) people.set(person.name, person);
  }
  return [...people.values()];
}

function roleOf(text: string): Person['role'] {
  return text === 'viewer' || text === 'manager' ? text : 'member';
}

/** Each of them gets an invitation of its own; `tell` hears how many were tried. What was refused is in the answer, too. */
export async function inviteAll(people: readonly Person[], tell: (done: number) => void): Promise<Invited[]> {
  const invited: Invited[] = [];
  let next = 0;
  let done = 0;
  const work = async () => {
    for (let index = next++; index < people.length; index = next++) {
      const person = people[index];
      if (!person) return;
      invited[index] = await invite(person);
      tell((done += 1));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return invited;
}

async function invite(person: Person): Promise<Invited> {
  try {
    const { email, tenant, role } = person;
    const made = await take(api.POST('/api/v1/invitations', { body: { email, tenant, role } }));
    return { person, link: linkOf(made.token), problem: null };
  } catch (error) {
    return { person, link: null, problem: asProblem(error) };
  }
}

/** The code stands behind the `#`, which no server and no log ever sees. */
export function linkOf(code: string): string {
  return `${location.origin}/invitation#${encodeURIComponent(code)}`;
}

export function linkRows(invited: readonly Invited[]): Cell[][] {
  return [
    ['name', 'email', 'tenant', 'role', 'link', 'problem'],
    ...invited.map(({ person, link, problem }): Cell[] => [person.name, person.email, person.tenant, person.role, link, problem && (problem.detail || problem.title)]),
  ];
}
