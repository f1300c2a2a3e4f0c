/** By which right others hold what a job lacks, as its page tells it. */

import { MantineProvider } from '@mantine/core';
import { act, type ReactNode } from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, it, vi } from 'vitest';

import type { Schemas } from '@/api/client';
import { LanguageProvider, type Language } from '@/text/language';

import { Condition, Now } from './Explain';

vi.mock('@/api/session', () => ({ useSession: () => ({ has: () => false, may: () => false, isOperator: false, who: { user: { id: 'u' } } }) }));

type Holder = Schemas['UnmetOut']['held_by'][number];

afterEach(() => {
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

function shown(holder: Partial<Holder>, language: Language = 'en'): Promise<string> {
  const held_by = [{ queue: null, cpu_millis: 1000, memory_bytes: 0, gpu_millis: 0, jobs: 1, since: null, standing: 'deserved', kept: false, ...holder }];
  const condition = { code: 'no_room', text: 'No room.', filters: [], jobs: [], jobs_count: 0, until: null, held_by } as unknown as Schemas['UnmetOut'];
  return drawn(<Condition condition={condition} />, language);
}

async function drawn(part: ReactNode, language: Language = 'en'): Promise<string> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  await act(async () =>
    root.render(
      <LanguageProvider language={language} choose={() => undefined}>
        <MantineProvider env="test">
          <MemoryRouter>{part}</MemoryRouter>
        </MantineProvider>
      </LanguageProvider>,
    ),
  );
  const text = place.textContent ?? '';
  await act(async () => root.unmount());
  return text;
}

it('tells what is deserved from what is guaranteed and what is borrowed', async () => {
  expect(await shown({ standing: 'deserved' })).toContain('(deserved)');
  expect(await shown({ standing: 'guaranteed' })).toContain('(guaranteed)');
  expect(await shown({ standing: 'borrowed' })).toContain('(borrowed)');
  expect(await shown({ standing: 'deserved' }, 'zh')).toContain('应得');
});

it('says of room that is kept that nothing runs on it', async () => {
  expect(await shown({ standing: 'guaranteed', kept: true })).toContain('(reserved)');
});

it('tells the time of a reason that has gone', async () => {
  const now = { code: 'ceiling', text: 'It needs 2 GPUs.', hint: '', detail: {}, found_at: null };
  const told = await drawn(<Now now={now} foundAt="2026-11-23T14:02:11Z" />);
  expect(told).toMatch(/Now: It needs 2 GPUs\.The reason above is of .*:02:11/);
  expect(await drawn(<Now now={now} foundAt={null} />, 'zh')).toMatch(/现在： It needs 2 GPUs\.$/);
});
