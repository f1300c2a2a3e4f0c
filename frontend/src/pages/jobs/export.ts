/** Reads the whole list, page by page and bounded, and hands it over as a file. */

import { api, take } from '@/api/client';
import { saveCsv } from '@/ui/files';

import { toRows } from './csv';
import type { JobQuery } from './filters';
import type { Job } from './merge';

export const EXPORT_MAX = 10_000;
const PAGE = 500;

export async function exportJobs(query: JobQuery, tell: (count: number) => void): Promise<{ count: number; isCut: boolean }> {
  const jobs: Job[] = [];
  let cursor: string | null = null;
  do {
    const page: { items: Job[]; next: string | null } = await take(api.GET('/api/v1/jobs', { params: { query: { ...query, limit: PAGE, ...(cursor ? { cursor } : {}) } } }));
    jobs.push(...page.items);
    cursor = page.next;
    tell(jobs.length);
  } while (cursor && jobs.length < EXPORT_MAX);
  saveCsv(`berth-jobs-${new Date().toISOString().slice(0, 10)}.csv`, toRows(jobs));
  return { count: jobs.length, isCut: cursor !== null };
}
