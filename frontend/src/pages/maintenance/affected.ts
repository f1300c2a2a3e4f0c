/** Whose jobs hold GPUs of some nodes, each job once. */

import type { Schemas } from '@/api/client';

export interface AffectedJob {
  id: string;
  name: string;
  tenant: string;
  user: string;
  gpus: number | null;
}

export function affectedOf(nodes: readonly Pick<Schemas['OccupiedNodeOut'], 'gpus'>[]): { jobs: AffectedJob[]; others: number } {
  const jobs = new Map<string, AffectedJob & { gpus: number }>();
  let others = 0;
  for (const gpu of nodes.flatMap((node) => node.gpus)) {
    if (!gpu.held) continue;
    if (gpu.job_id === null) {
      others += gpu.holders;
      continue;
    }
    const job = jobs.get(gpu.job_id) ?? { id: gpu.job_id, name: gpu.job_name ?? '–', tenant: gpu.tenant ?? '–', user: gpu.user ?? '–', gpus: 0 };
    job.gpus += 1;
    jobs.set(gpu.job_id, job);
  }
  return { jobs: [...jobs.values()].sort((one, other) => other.gpus - one.gpus), others };
}
