/** Which try of a job a part shows, kept in the address as `?attempt=`. Nothing where there was only one. */

import { Select } from '@mantine/core';

import { useAddress } from '@/app/address';
import { useText } from '@/text/language';

import type { Job } from './queries';
import { words } from './text';

const SHOWN_MAX = 50;

/** The attempt of the address, or null: the latest. */
export function useAttempt(job: Job): number | null {
  const [search] = useAddress();
  const number = Number(search.get('attempt'));
  return Number.isInteger(number) && number > 0 && number < job.attempt ? number : null;
}

export function AttemptChoice({ job }: { job: Job }) {
  const t = useText(words);
  const [, put] = useAddress();
  const chosen = useAttempt(job);
  if (job.attempt < 2) return null;
  const numbers = Array.from({ length: Math.min(SHOWN_MAX, job.attempt) }, (_, index) => job.attempt - index);
  return (
    <Select
      aria-label={t('attempt')}
      w="11rem"
      size="sm"
      allowDeselect={false}
      value={String(chosen ?? job.attempt)}
      data={numbers.map((number) => ({ value: String(number), label: t('attemptOf', { number }) + (number === job.attempt ? ` (${t('latest')})` : '') }))}
      onChange={(value) => put({ attempt: Number(value) === job.attempt ? null : value })}
    />
  );
}
