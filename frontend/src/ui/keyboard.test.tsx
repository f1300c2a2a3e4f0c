/** The keyboard goes to the title when its button is taken away, and nowhere when something else is. */

import { act, useRef } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { useKeyboardKept } from './keyboard';

function Job({ canStop, tags = [] }: { canStop: boolean; tags?: readonly string[] }) {
  const title = useRef<HTMLHeadingElement>(null);
  const actions = useKeyboardKept(title);
  return (
    <>
      <h1 ref={title} tabIndex={-1}>
        train
      </h1>
      <input aria-label="Elsewhere" />
      <div ref={actions}>
        {canStop && (
          <div>
            <button>Stop</button>
          </div>
        )}
        <button>Rerun</button>
        {tags.map((tag) => (
          <span key={tag}>{tag}</span>
        ))}
      </div>
    </>
  );
}

let root: Root;
const show = (what: React.ReactNode) => act(async () => root.render(what));
const focused = () => document.activeElement?.textContent || document.activeElement?.getAttribute('aria-label');
const button = (name: string) => [...document.querySelectorAll('button')].find((each) => each.textContent === name);

beforeEach(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  const place = document.createElement('div');
  document.body.replaceChildren(place);
  root = createRoot(place);
});
afterEach(() => act(async () => root.unmount()));

it('leads to the title when the button that has it goes away', async () => {
  await show(<Job canStop />);
  button('Stop')?.focus();
  await show(<Job canStop={false} />);
  expect(focused()).toBe('train');
});

it('leaves the keyboard where it is when others go away', async () => {
  await show(<Job canStop tags={['one']} />);
  button('Rerun')?.focus();
  await show(<Job canStop={false} />);
  expect(focused()).toBe('Rerun');
});

it('does not fetch somebody back who went on meanwhile', async () => {
  await show(<Job canStop />);
  button('Stop')?.focus();
  document.querySelector('input')?.focus();
  await show(<Job canStop={false} />);
  expect(focused()).toBe('Elsewhere');
});

it('takes the keyboard from nobody who has none', async () => {
  await show(<Job canStop />);
  await show(<Job canStop={false} />);
  expect(document.activeElement).toBe(document.body);
});
