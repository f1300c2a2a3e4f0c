/** Who of an imported file is invited, and what the file of links holds. */

import { describe, expect, it } from 'vitest';

import { Problem } from '@/api/problem';
import { csv } from '@/ui/files';

import { linkRows, newPeople, readCsv } from './invites';

const FILE = 'role,name,email,tenant\r\nmember,erin,erin@example.org,vision\r\nmanager,erin,erin@example.org,ocr\r\n\r\nviewer,"finn, jr",finn@example.org,\r\nmember,gus,gus@example.org,vision\r\n';

describe('an imported file', () => {
  it('is read with quotes, commas and lines inside of cells', () => {
    expect(readCsv('\uFEFFa,"b, ""c""\nd"\n\n,e\n')).toEqual([['a', 'b, "c"\nd'], ['', 'e']]);
  });
  it('gives each new person one invitation, by the first line with a tenant', () => {
    expect(newPeople(FILE, new Set(['erin', 'finn, jr']))).toEqual([{ name: 'erin', email: 'erin@example.org', tenant: 'vision', role: 'member' }]);
    expect(newPeople(FILE, new Set(['gus'])).map((person) => person.name)).toEqual(['gus']);
    expect(newPeople('', new Set(['erin']))).toEqual([]);
  });
  it('becomes a file of links that says who got none, and why', () => {
    const person = { name: 'erin', email: 'erin@example.org', tenant: 'vision', role: 'member' } as const;
    const rows = linkRows([
      { person, link: 'https://berth.example.org/invitation#bi_x', problem: null },
      { person: { ...person, name: '=gus' }, link: null, problem: new Problem(429, { detail: '1000 invitations are open.' }) },
    ]);
    expect(csv(rows)).toBe(
      "name,email,tenant,role,link,problem\r\nerin,erin@example.org,vision,member,https://berth.example.org/invitation#bi_x,\r\n'=gus,erin@example.org,vision,member,,1000 invitations are open.\r\n",
    );
  });
});
