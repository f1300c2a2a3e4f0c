/** What the framework makes of a job, as the plan tells it. */

import { MantineProvider } from '@mantine/core';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, it, vi } from 'vitest';

import { LanguageProvider, type Language } from '@/text/language';

import { LayoutView, type Layout } from './Layout';

afterEach(() => {
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

const plain = { count: 1, environment: {}, secrets: [], ports: [], command: ['train'], beside: [], starts_after: [], waits_for: [], ready_when: '', max_retry: 0, processes: 1, installs: [] };
const cluster: Layout = {
  roles: [
    { ...plain, role: 'head', beside: [['ray', 'start', '--head']], secrets: ['RAY_AUTH_TOKEN'], waits_for: ['worker'] },
    { ...plain, role: 'worker', count: 4, starts_after: ['head'], environment: { RAY_ADDRESS: '<head-0>:6379' }, max_retry: 3 },
  ],
  chief: 'head',
  vital: [],
};

async function drawn(layout: Layout, language: Language = 'en'): Promise<string> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  await act(async () =>
    root.render(
      <LanguageProvider language={language} choose={() => undefined}>
        <MantineProvider env="test">
          <LayoutView layout={layout} />
        </MantineProvider>
      </LanguageProvider>,
    ),
  );
  const text = place.textContent ?? '';
  await act(async () => root.unmount());
  return text;
}

it('shows roles in the order of their start, what runs beside them, and whose end decides', async () => {
  const text = await drawn(cluster);
  expect(text.indexOf('head')).toBeLessThan(text.indexOf('worker · 4 tasks'));
  for (const part of ['ray start --head', 'RAY_AUTH_TOKEN•••', 'Starts afterhead', '<head-0>:6379', 'The end of head is the end of the job.']) expect(text).toContain(part);
  expect(await drawn(cluster, 'zh')).toContain('head 结束则作业结束。');
});

it('is silent where tasks are their command alone', async () => {
  expect(await drawn({ roles: [{ ...plain, role: 'worker' }], chief: null, vital: [] })).not.toContain('worker');
});
