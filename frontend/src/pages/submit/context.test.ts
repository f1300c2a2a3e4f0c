/** Where in a job file the cursor is. */

import { describe, expect, it } from 'vitest';

import { contextAt } from './context';

/** The place at the bar of a text. */
function at(marked: string) {
  const position = marked.indexOf('‸');
  return contextAt(marked.replace('‸', ''), position);
}

describe('the place of the cursor', () => {
  it('is a key at the top', () => {
    expect(at('name: a\nre‸')).toMatchObject({ path: [], wants: 'key', word: 're' });
    expect([...(at('name: a\nre‸\ntags: []')?.taken ?? [])].sort()).toEqual(['name', 'tags']);
  });
  it('is a value behind a colon', () => {
    expect(at('framework: py‸')).toMatchObject({ path: ['framework'], wants: 'value', word: 'py' });
    expect(at('roles:\n  worker:\n    resources:\n      gpu: ‸')).toMatchObject({ path: ['roles', 'worker', 'resources', 'gpu'], wants: 'value' });
  });
  it('is a key below what the indent says', () => {
    expect(at('roles:\n  worker:\n    replicas: 2\n    ‸')).toMatchObject({ path: ['roles', 'worker'], wants: 'key' });
    expect(at('roles:\n  worker:\n    replicas: 2\n  ‸')).toMatchObject({ path: ['roles'], wants: 'key' });
    expect(at('retry:\n  limit: 1\n‸')).toMatchObject({ path: [], wants: 'key' });
  });
  it('knows brackets', () => {
    expect(at('resources: {cpu: 1, me‸}')).toMatchObject({ path: ['resources'], wants: 'key', word: 'me', isFlow: true });
    expect(at('resources: {cpu: 1, gpu: ‸')).toMatchObject({ path: ['resources', 'gpu'], wants: 'value' });
    expect(at('retry: {limit: 1, on: [user, o‸')).toMatchObject({ path: ['retry', 'on', 1], wants: 'value', word: 'o' });
  });
  it('knows lists', () => {
    expect(at('mounts:\n- volume: d\n  ‸')).toMatchObject({ path: ['mounts', 0], wants: 'key' });
    expect(at('mounts:\n  - volume: d\n    path: /a\n  - volume: ‸')).toMatchObject({ path: ['mounts', 1, 'volume'], wants: 'value' });
    expect(at('retry:\n  on:\n    - user\n    - ‸')).toMatchObject({ path: ['retry', 'on', 1], wants: 'value' });
  });
  it('is nowhere in comments and block texts', () => {
    expect(at('name: a # b‸')).toBeNull();
    expect(at('command: |\n  echo na‸')).toBeNull();
  });
});
