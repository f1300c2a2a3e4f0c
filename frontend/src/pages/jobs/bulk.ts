/** One deed to many jobs: single calls, a few at once, and each job's own answer. */

import { api, take } from '@/api/client';
import { asProblem, type Problem } from '@/api/problem';

import type { Job } from './merge';

export const AT_ONCE = 4;
export const BULK_MAX = 500;
export type PriorityName = 'low' | 'normal' | 'high' | 'urgent';

export type Deed = { kind: 'stop'; reason?: string } | { kind: 'rerun' } | { kind: 'tag'; tag: string } | { kind: 'untag'; tag: string } | { kind: 'priority'; priority: PriorityName };
export interface Outcome {
  job: Job;
  state: 'waiting' | 'done' | 'failed' | 'skipped';
  /** The job after it; of a rerun, the new one. */
  after?: Job;
  problem?: Problem;
}

function act(job: Job, deed: Deed): Promise<Job> {
  const path = { job: job.id };
  switch (deed.kind) {
    case 'stop':
      return take(api.POST('/api/v1/jobs/{job}/stop', { params: { path }, body: { reason: deed.reason } }));
    case 'rerun':
      return take(api.POST('/api/v1/jobs/{job}/rerun', { params: { path }, body: {} })) as Promise<Job>;
    case 'tag':
      return take(api.PUT('/api/v1/jobs/{job}/tags/{tag}', { params: { path: { ...path, tag: deed.tag } } }));
    case 'untag':
      return take(api.DELETE('/api/v1/jobs/{job}/tags/{tag}', { params: { path: { ...path, tag: deed.tag } } }));
    case 'priority':
      return take(api.PATCH('/api/v1/jobs/{job}', { params: { path }, body: { priority: deed.priority } }));
  }
}

/** Does it to each in turn; `tell` hears the outcomes so far. Stops early when asked to: what is left was not done. */
export async function actOnAll(jobs: readonly Job[], deed: Deed, tell: (outcomes: Outcome[]) => void, signal: AbortSignal): Promise<Outcome[]> {
  const outcomes: Outcome[] = jobs.map((job) => ({ job, state: 'waiting' }));
  let next = 0;
  const work = async () => {
    while (next < jobs.length) {
      const index = next++;
      const job = jobs[index];
      if (!job) return;
      if (signal.aborted) {
        outcomes[index] = { job, state: 'skipped' };
        continue;
      }
      try {
        outcomes[index] = { job, state: 'done', after: await act(job, deed) };
      } catch (error) {
        outcomes[index] = { job, state: 'failed', problem: asProblem(error) };
      }
      tell([...outcomes]);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  tell([...outcomes]);
  return outcomes;
}
