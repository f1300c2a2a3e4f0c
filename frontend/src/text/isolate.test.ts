import { expect, it } from 'vitest';

import { isolate } from './isolate';
import { fill } from './language';

it('leaves names as they are that are read from left to right', () => {
  for (const name of ['vision', '视觉', 'Größe 3', '']) expect(isolate(name)).toBe(name);
});

it('sets names apart that are read from right to left, or have a part that is', () => {
  for (const name of ['רשת', 'شبكة', 'team שם 3D']) expect(isolate(name)).toBe(`\u2068${name}\u2069`);
});

it('does so wherever a value is put into a sentence', () => {
  expect(fill('{name}: {used} of {all}', { name: 'תור', used: 8, all: 10 })).toBe('\u2068תור\u2069: 8 of 10');
  expect(fill('{count} {count|job|jobs}', { count: 1 })).toBe('1 job');
});
