/** The columns of the list as a file. */

import type { Cell } from '@/ui/files';

import type { Job } from './merge';

const COLUMNS: readonly [string, (job: Job) => Cell][] = [
  ['id', (job) => job.id],
  ['name', (job) => job.name],
  ['state', (job) => job.state],
  ['reason', (job) => job.reason?.code],
  ['reason_text', (job) => job.reason?.text],
  ['tenant', (job) => job.tenant.name],
  ['queue', (job) => job.queue.name],
  ['user', (job) => job.user.name],
  ['kind', (job) => job.kind],
  ['priority', (job) => job.priority],
  ['gpus', (job) => job.resources.gpu_millis / 1000],
  ['cores', (job) => job.resources.cpu_millis / 1000],
  ['memory_bytes', (job) => job.resources.memory_bytes],
  ['pool', (job) => job.pool],
  ['submitted_at', (job) => job.submitted_at],
  ['started_at', (job) => job.started_at],
  ['ended_at', (job) => job.ended_at],
  ['exit_code', (job) => job.exit?.code],
  ['tags', (job) => job.tags.join(' ')],
];

export function toRows(jobs: readonly Job[]): Cell[][] {
  return [COLUMNS.map(([name]) => name), ...jobs.map((job) => COLUMNS.map(([, read]) => read(job)))];
}
