/** Every state of a checkpoint, as the card of the job page tells it. */

import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { Schemas } from '@/api/client';
import { LanguageProvider, type Language } from '@/text/language';

import type { Job } from '../queries';
import { Card } from './Checkpoint';

vi.mock('@/api/session', () => ({ useSession: () => ({ has: () => false, may: () => false, isOperator: false, who: { user: { id: 'u' } } }) }));

type Kept = Schemas['CheckpointOut'];

const RUNNING = { id: '0198c000-0000-7000-8000-000000000001', state: 'running', tenant: { slug: 'vision' }, user: { id: 'u' } } as unknown as Job;
const ENDED = { ...RUNNING, state: 'failed' } as Job;
const KEPT: Kept = {
  path: 'ckpt',
  per: 'job',
  interval_seconds: 600,
  signal: 'SIGTERM',
  grace_seconds: 30,
  started_from: null,
  state: 'ready',
  problem: '',
  saved_at: '2026-11-22T10:00:00Z',
  age_seconds: 90,
  size_bytes: 3 * 2 ** 20,
  file_count: 2,
  quota_bytes: 0,
  kept_until: null,
  if_evicted_now: null,
};
const NOTHING = { saved_at: null, age_seconds: null, size_bytes: 0, file_count: 0 } as const;

let root: Root;

beforeEach(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  const place = document.createElement('div');
  document.body.append(place);
  root = createRoot(place);
});

afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

async function shown(kept: Partial<Kept>, job: Job = RUNNING, language: Language = 'en'): Promise<string> {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  client.setQueryData(['job', job.id, 'checkpoint'], { ...KEPT, ...kept });
  await act(async () =>
    root.render(
      <LanguageProvider language={language} choose={() => undefined}>
        <QueryClientProvider client={client}>
          <MantineProvider env="test">
            <MemoryRouter>
              <Card job={job} />
            </MemoryRouter>
          </MantineProvider>
        </QueryClientProvider>
      </LanguageProvider>,
    ),
  );
  const text = document.querySelector('section')?.textContent ?? '';
  expect(text).not.toMatch(/[`{}]/);
  return text;
}

const buttons = () => [...document.querySelectorAll('button, a')].map((each) => each.textContent);

it('none: says where to write one, and offers no files', async () => {
  const text = await shown({ state: 'none', ...NOTHING });
  expect(text).toContain('none yet');
  expect(text).toContain('Write one to ckpt, and again when signal SIGTERM arrives');
  expect(buttons()).toEqual([]);
});

it('none of a job that has ended: asks for nothing that can be written no more', async () => {
  const text = await shown({ state: 'none', ...NOTHING }, ENDED);
  expect(text).toContain('no job can resume from it');
  expect(text).not.toContain('Stop signal');
});

it('in a volume: claims nothing of what the platform does not look into', async () => {
  const text = await shown({ state: 'none', path: '/data/ckpt', ...NOTHING });
  expect(text).toContain('in a volume');
  expect(text).not.toContain('none yet');
});

it('writing: the one before is what a next attempt goes on from', async () => {
  expect(await shown({ state: 'writing' })).toContain('Until it is complete, the next attempt resumes from the previous one.');
  expect(buttons()).toEqual(['Files', 'All as one archive (tar)']);
});

it('checking: a next attempt waits', async () => {
  expect(await shown({ state: 'checking' }, { ...RUNNING, state: 'queued' } as Job)).toContain('The next attempt waits for the result.');
});

it('unreadable: says why in one sentence, and still offers the files', async () => {
  const text = await shown({ state: 'unreadable', problem: 'The directory is not there any more.', if_evicted_now: { lost_seconds: 0, lost_gpu_seconds: 0, lost_cost: null } });
  expect(text).not.toContain('would lose no work'); // What was saved cannot be read.
  expect(text).toContain('No attempt can resume from this checkpoint: The directory is not there any more. Look at its files');
  expect(buttons()).toContain('Files');
});

it('removed: offers no files, and no signal to a job that has ended', async () => {
  const text = await shown({ state: 'removed', ...NOTHING }, ENDED);
  expect(text).toContain('removed when its retention ended');
  expect(text).not.toContain('Stop signal');
  expect(buttons()).toEqual([]);
});

it('ready: its age, size and files, what a stop leaves time for, and what an eviction would cost', async () => {
  const text = await shown({ quota_bytes: 2 ** 30, if_evicted_now: { lost_seconds: 90, lost_gpu_seconds: 180, lost_cost: null } });
  expect(text).toContain('The next attempt of this job resumes from this checkpoint.');
  expect(text).toContain('ckpt (shared by all tasks)');
  expect(text).toMatch(/3(\.0)? MiB of 1(\.0)? GiB, 2 files/);
  expect(text).toMatch(/A preemption now would lose .*0\.05 GPU-hours/);
  expect(text).toContain('SIGTERM, then');
  expect(document.querySelector('time')?.getAttribute('datetime')).toContain('2026-11-22T10:00:00');
});

it('ready of a job that has ended: another job can go on from it', async () => {
  const text = await shown({ kept_until: '2026-12-22T10:00:00Z', started_from: '0198c000-0000-7000-8000-000000000002' }, ENDED);
  expect(text).toContain('A new job can resume from this checkpoint');
  expect(text).not.toContain('The next attempt');
  expect(text).toContain('Kept until');
  expect(buttons()).toContain('the checkpoint of another job');
});

it.each(['none', 'writing', 'checking', 'unreadable', 'removed', 'ready'] as const)('%s is told in Chinese too', async (state) => {
  const text = await shown({ state, problem: 'The directory is not there any more.', ...(state === 'none' || state === 'removed' ? NOTHING : {}) }, RUNNING, 'zh');
  expect(text).toContain('检查点');
  expect(text).not.toMatch(/checkpoint|attempt/);
});
