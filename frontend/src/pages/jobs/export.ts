/** Reads the whole list, page by page and bounded, and hands it over as a file. */

import { api, take } from '@/api/client';

import { toCsv } from './csv';
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
  save(new Blob(['\uFEFF', toCsv(jobs)], { type: 'text/csv;charset=utf-8' }), `berth-jobs-${new Date().toISOString().slice(0, 10)}.csv`);
  return { count: jobs.length, isCut: cursor !== null };
}

export function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
