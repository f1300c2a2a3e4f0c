import type { Job } from '../queries';

export default function Logs({ job }: { job: Job }) {
  return <>{job.id}</>;
}
