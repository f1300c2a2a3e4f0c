import type { Job } from '../queries';

export default function Metrics({ job }: { job: Job }) {
  return <>{job.id}</>;
}
