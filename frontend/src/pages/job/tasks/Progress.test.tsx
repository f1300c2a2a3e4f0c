/** How far tasks are, and which are far behind, as it is told beside a bar. */

import { MantineProvider } from '@mantine/core';
import { act, type ReactNode } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, it, vi } from 'vitest';

import { LanguageProvider, type Language } from '@/text/language';

import type { Job, Task } from '../queries';
import { refetchOfProgress, refetchTasks, sharePercent, Stragglers, TaskProgress } from './Progress';

afterEach(() => {
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

const AT = '2026-11-23T12:00:00Z';
const task = (index: number, done: number | null, straggler: Task['straggler'] = null, state: Task['state'] = 'running') =>
  ({ role: 'worker', index, state, node: `node-${index}`, straggler, progress: done === null ? null : { done, total: 1000, at: AT } }) as Task;

async function drawn(part: ReactNode, language: Language = 'en'): Promise<HTMLElement> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  const place = document.body.appendChild(document.createElement('div'));
  await act(async () =>
    createRoot(place).render(
      <LanguageProvider language={language} choose={() => undefined}>
        <MantineProvider env="test">
          <main>{part}</main>
        </MantineProvider>
      </LanguageProvider>,
    ),
  );
  return place.querySelector('main') ?? place;
}

it('tells a straggler by a bar with a name, and by its distance in words', async () => {
  const place = await drawn(<TaskProgress task={task(5, 120, { behind_percent: 48, median_percent: 60 })} />);
  const bar = place.querySelector('progress');
  expect([bar?.value, bar?.max, bar?.getAttribute('aria-label'), bar?.getAttribute('aria-valuetext')]).toEqual([120, 1000, 'Progress of worker-5', '12% (120/1,000)']);
  expect(place.textContent).toBe('12% (120/1,000)48 points behind');
  expect((await drawn(<TaskProgress task={task(5, 120, { behind_percent: 48, median_percent: 60 })} />, 'zh')).textContent).toContain('落后 48 个百分点');
});

it('shows a dash for a task that said nothing, and no part that is not done as done', async () => {
  expect((await drawn(<TaskProgress task={task(0, null)} />)).textContent).toBe('–');
  expect([sharePercent({ done: 999, total: 1000 }), sharePercent({ done: 1000, total: 1000 }), sharePercent({ done: 0, total: 0 })]).toEqual([99, 100, 0]);
});

it('names those that are furthest behind first, and advises instead of stopping them', async () => {
  const late = [10, 30, 20, 40, 50, 60].map((behind, index) => task(index, 600 - 10 * behind, { behind_percent: behind, median_percent: 60 }));
  const text = (await drawn(<Stragglers tasks={[task(9, 600), ...late]} />)).textContent ?? '';
  expect(text).toMatch(/worker-5 on node-5: 0% done, the median task 60%.*worker-4.*worker-3.*worker-1.*worker-2.*and 1 more Slow tasks are not stopped/);
  expect((await drawn(<Stragglers tasks={[task(9, 600)]} />)).textContent).toBe('');
});

it('reads a job again more often once its tasks say how far they are', () => {
  const running = { state: 'running' } as Job;
  const speaking = { ...running, progress: { done: 1, total: 2, at: AT } } as Job;
  expect(refetchOfProgress(speaking)).toBeLessThan(Number(refetchOfProgress(running)));
  expect(refetchTasks(running, [task(0, 1)])).toBeLessThan(Number(refetchTasks(running, [task(0, null)])));
  for (const over of [undefined, { ...speaking, state: 'succeeded' } as Job]) expect(refetchOfProgress(over)).toBe(false);
  expect(refetchTasks({ ...running, state: 'failed' } as Job, [task(0, 1)])).toBe(false);
});
