/** The run time that a job without a maximum is planned with, as its page tells it. */

import { MantineProvider } from '@mantine/core';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, it, vi } from 'vitest';

import { LanguageProvider, type Language } from '@/text/language';

import type { Job } from '../queries';
import { Facts } from './Facts';

afterEach(() => {
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

async function shown(runtime: Pick<Job, 'max_runtime_seconds' | 'planned_runtime_seconds'>, language: Language = 'en'): Promise<string> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  const resources = { cpu_millis: 1000, memory_bytes: 0, gpu_millis: 0 };
  const job = { id: 'a', resources, image: { name: 'system' }, framework: 'plain', priority: 500, labels: {}, submitted_at: '2026-11-23T12:00:00Z', started_at: null, ended_at: null, isolation: null, ...runtime } as unknown as Job;
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  await act(async () =>
    root.render(
      <LanguageProvider language={language} choose={() => undefined}>
        <MantineProvider env="test">
          <Facts job={job} />
        </MantineProvider>
      </LanguageProvider>,
    ),
  );
  const text = place.textContent ?? '';
  await act(async () => root.unmount());
  return text;
}

it('tells the planned run time of a job without a maximum, and that the job is not ended then', async () => {
  const text = await shown({ max_runtime_seconds: null, planned_runtime_seconds: 7200 });
  expect(text).toMatch(/Planned run time2 h.*; the job is not ended then/);
  expect(await shown({ max_runtime_seconds: null, planned_runtime_seconds: 7200 }, 'zh')).toMatch(/规划运行时间2.*到时不会结束/);
});

it('says so where the job is planned without an end', async () => {
  expect(await shown({ max_runtime_seconds: null, planned_runtime_seconds: null })).toContain('without an end');
  expect(await shown({ max_runtime_seconds: null, planned_runtime_seconds: null }, 'zh')).toContain('按不限时间规划');
});

it('tells only the maximum where there is one', async () => {
  const text = await shown({ max_runtime_seconds: 3600, planned_runtime_seconds: 3600 });
  expect(text).toContain('Maximum run time1 h');
  expect(text).not.toContain('Planned run time');
});
