/** The list as CSV for a spreadsheet, which must not take a job's name for a formula. */

import type { Job } from './merge';

const COLUMNS: readonly [string, (job: Job) => string | number | null | undefined][] = [
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

/** One cell: quoted where it must be; text that a spreadsheet would calculate gets an apostrophe first (OWASP, CSV injection). */
export function cell(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function toCsv(jobs: readonly Job[]): string {
  const lines = [COLUMNS.map(([name]) => name).join(','), ...jobs.map((job) => COLUMNS.map(([, read]) => cell(read(job))).join(','))];
  return `${lines.join('\r\n')}\r\n`;
}
