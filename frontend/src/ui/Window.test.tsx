/** One press of Escape closes one window, the one on top, and what was typed below stays. */

import { MantineProvider } from '@mantine/core';
import { act, useState } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { Window } from './Window';

function Two() {
  const [isBelow, setBelow] = useState(true);
  const [isAbove, setAbove] = useState(false);
  return (
    <Window opened={isBelow} onClose={() => setBelow(false)} title="Below" transitionProps={{ duration: 0 }}>
      <textarea aria-label="Typed" defaultValue="" />
      <button onClick={() => setAbove(true)}>Open</button>
      <Window opened={isAbove} onClose={() => setAbove(false)} title="Above" transitionProps={{ duration: 0 }}>
        over it
      </Window>
    </Window>
  );
}

let root: Root;
const titles = () => [...document.querySelectorAll('[role=dialog] h2')].map((title) => title.textContent);
const press = (key: string) => act(async () => void document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })));

beforeEach(async () => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal('ResizeObserver', class { observe() {} unobserve() {} disconnect() {} }); // prettier-ignore
  const place = document.createElement('div');
  document.body.append(place);
  root = createRoot(place);
  await act(async () => root.render(<MantineProvider env="test"><Two /></MantineProvider>)); // prettier-ignore
});

afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

it('closes one window at a press, the one on top', async () => {
  const typed = document.querySelector('textarea');
  if (typed) typed.value = 'memory: 4Gi';
  await act(async () => [...document.querySelectorAll('button')].find((each) => each.textContent === 'Open')?.click());
  expect(titles()).toEqual(['Below', 'Above']);
  await press('Escape');
  expect(titles()).toEqual(['Below']);
  expect(document.querySelector('textarea')?.value).toBe('memory: 4Gi');
  await press('Escape');
  expect(titles()).toEqual([]);
});
