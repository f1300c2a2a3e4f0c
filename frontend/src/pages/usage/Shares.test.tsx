/** The table of shares has all figures of the API, deficits among them. */

import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, it, vi } from 'vitest';

import type { Schemas } from '@/api/client';
import { SessionProvider, type Who } from '@/api/session';
import { LanguageProvider } from '@/text/language';

import Shares from './Shares';

const HOUR = 3_600_000;
const SHARE: Schemas['ShareOut'] = {
  tenant: { id: 't', slug: 'vision', name: 'vision' },
  queue: { id: 'q', name: 'vision' },
  is_top: true,
  pool: { id: 'p', name: 'a100', cluster: 'local' },
  resource: 'gpu_millis',
  deserved: 80 * HOUR,
  requested: 60 * HOUR,
  requested_by_all: 200 * HOUR,
  due: 60 * HOUR,
  delivered: 40 * HOUR,
  delivered_by_all: 100 * HOUR,
  shortfall: 20 * HOUR,
  fair: 53 * HOUR,
  deficit: 13 * HOUR,
  fair_ppm: 530_000,
  delivered_ppm: 400_000,
};

afterEach(() => {
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

it('shows the deficit beside the fair share', async () => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal('ResizeObserver', class {
    observe() {}
    unobserve() {}
    disconnect() {}
  });
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  client.setQueryData(['usage', 'shares'], { since: '', until: '', items: [SHARE] });
  const who = { user: { id: 'u', name: 'alice', is_operator: false }, tenants: [] } as unknown as Who;
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  await act(async () =>
    root.render(
      <LanguageProvider language="en" choose={() => undefined}>
        <QueryClientProvider client={client}>
          <MantineProvider env="test">
            <MemoryRouter>
              <SessionProvider who={who} features={[]}>
                <Shares />
              </SessionProvider>
            </MemoryRouter>
          </MantineProvider>
        </QueryClientProvider>
      </LanguageProvider>,
    ),
  );

  const cells = (name: string) => [...place.querySelectorAll(name)].map((cell) => cell.textContent);
  expect(cells('th').slice(3)).toEqual(['Deserved', 'Requested', 'Due', 'Delivered', 'Shortfall', 'Fair share', 'Deficit']);
  expect(cells('td').slice(-2)).toEqual(['53', '13']);
  await act(() => root.unmount());
});
