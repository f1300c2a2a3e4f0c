/** Events and decisions show the words of the server, and no code. */

import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, it, vi } from 'vitest';

import type { Schemas } from '@/api/client';
import { LanguageProvider } from '@/text/language';

import type { Job } from '../queries';
import Events from './Events';

const JOB = { id: '0198c000-0000-7000-8000-000000000001', state: 'queued' } as unknown as Job;
const EVENT: Schemas['TransitionOut'] = {
  id: '1',
  subject: { kind: 'job', id: JOB.id },
  from_state: 'starting',
  to_state: 'queued',
  reason: 'gpu_fault_stop',
  reason_text: 'A GPU of node n1 is faulty; the job is requeued for other devices.',
  detail: {},
  actor: 'system:observer',
  at: '2026-11-23T14:05:00Z',
};
const DECISION: Schemas['DecisionOut'] = {
  id: '2',
  at: '2026-11-23T14:06:00Z',
  kind: 'refuse',
  pool: 'a100',
  detail: { reason: { code: 'kept_for_others', text: 'It needs 4 GPUs.', need: 4000, held: 0, limit: 8000 } },
};

afterEach(() => {
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

it('are told in the sentences of the server', async () => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  client.setQueryData(['job', JOB.id, 'events', false], { pages: [{ items: [EVENT], next: null }], pageParams: [''] });
  client.setQueryData(['job', JOB.id, 'decisions'], { pages: [{ items: [DECISION], next: null }], pageParams: [''] });
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  await act(async () =>
    root.render(
      <LanguageProvider language="en" choose={() => undefined}>
        <QueryClientProvider client={client}>
          <MantineProvider env="test">
            <MemoryRouter>
              <Events job={JOB} />
            </MemoryRouter>
          </MantineProvider>
        </QueryClientProvider>
      </LanguageProvider>,
    ),
  );
  const [events, decisions] = [...document.querySelectorAll('section')].map((each) => each.textContent ?? '');
  await act(async () => root.unmount());
  expect(events).toContain('A GPU of node n1 is faulty; the job is requeued for other devices.');
  expect(events).not.toContain('gpu_fault_stop');
  expect(decisions).toContain('It needs 4 GPUs.');
});
