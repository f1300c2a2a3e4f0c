/** A hook drawn by itself, with the query cache and the router that pages have around them. */

import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, type ReactNode } from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router';

import { settle } from './server';

export interface Drawn<T, P> {
  /** What the hook gave when it was last drawn. */
  readonly now: T;
  /** How often it was drawn. */
  readonly times: number;
  again: (props: P) => Promise<void>;
  /** Do something, and wait until all that follows from it is drawn. */
  act: (work: () => unknown) => Promise<void>;
  gone: () => Promise<void>;
}

export function newCache(): QueryClient {
  return new QueryClient({ defaultOptions: { queries: { retry: false } } });
}

export async function drawHook<T, P = undefined>(hook: (props: P) => T, props: NoInfer<P>, { cache = newCache(), address = '/' }: { cache?: QueryClient; address?: string } = {}): Promise<Drawn<T, P>> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  const root = createRoot(document.body.appendChild(document.createElement('div')));
  let now: T | undefined;
  let times = 0;
  function Probe({ given }: { given: P }): ReactNode {
    now = hook(given);
    times += 1;
    return null;
  }
  // What is drawn comes at the end of an `act`, and what follows from it after that: an answer, drawn, asks for the next.
  const calm = async () => {
    for (let round = 0; round < 3; round += 1) await act(() => settle(3));
  };
  const draw = async (given: P) => {
    await act(async () =>
      root.render(
        <QueryClientProvider client={cache}>
          <MemoryRouter initialEntries={[address]}>
            <Probe given={given} />
          </MemoryRouter>
        </QueryClientProvider>,
      ),
    );
    await calm();
  };
  await draw(props);
  return {
    get now() {
      return now as T;
    },
    get times() {
      return times;
    },
    again: draw,
    act: async (work) => {
      await act(async () => void (await work()));
      await calm();
    },
    gone: () => act(async () => root.unmount()),
  };
}
