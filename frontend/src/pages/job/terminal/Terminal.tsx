import type { Job } from '../queries';

export default function Terminal({ job }: { job: Job }) {
  return <>{job.id}</>;
}
