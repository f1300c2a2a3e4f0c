/** Everything that is read of one of two runs, each part as soon as it is there. */

import { useQuery } from '@tanstack/react-query';

import { useSession } from '@/api/session';
import type { Series } from '@/pages/job/metrics/fold';
import { attemptsQuery, costQuery, isArray, jobQuery, rightsTo, seriesQuery, specQuery, timelineQuery } from '@/pages/job/queries';
import { writeSpec } from '@/pages/submit/spec';

import type { Side } from './facts';

/** Points of each line: as many as half of a wide screen tells apart. */
const POINTS = 240;

export interface Compared extends Side {
  /** The job file as people write it; null while it is read. */
  file: string | null;
  fileError: unknown;
  series: readonly Series[] | null;
  seriesError: unknown;
  /** Arrays, and jobs that never started, have no tasks that were measured. */
  isMeasurable: boolean;
}

export interface SideRead {
  side: Compared | null;
  error: unknown;
  retry: () => void;
}

/** `name`: a job's name or id; empty reads nothing. */
export function useSide(name: string): SideRead {
  const session = useSession();
  const found = useQuery({ ...jobQuery(name), enabled: name !== '' });
  const job = found.data;
  const id = job?.id ?? '';
  const isThere = job !== undefined;
  const isMeasurable = isThere && !isArray(job) && job.attempt > 0;
  const timeline = useQuery({ ...timelineQuery(id), enabled: isThere });
  const attempts = useQuery({ ...attemptsQuery(id), enabled: isThere && job.attempt > 0 });
  // The cost of others' jobs is not for everybody; the job's own page asks by the same rule.
  const cost = useQuery({ ...costQuery(id), enabled: isThere && session.has('billing') && rightsTo(job, session).edit });
  const file = useQuery({ ...specQuery(id), enabled: isThere, select: writeSpec });
  const series = useQuery({ ...seriesQuery(id, POINTS), enabled: isMeasurable });
  const retry = () => void found.refetch();
  if (!job) return { side: null, error: found.error, retry };
  return {
    side: {
      job,
      timeline: timeline.data ?? null,
      attempts: attempts.data?.items ?? null,
      cost: cost.data ?? null,
      file: file.data ?? null,
      fileError: file.error,
      series: series.data?.items ?? null,
      seriesError: series.error,
      isMeasurable,
    },
    error: null,
    retry,
  };
}
