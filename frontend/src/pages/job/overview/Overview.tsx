/** The first look at a job: how it ended or why it waits, its life so far, what it asks for and costs. */

import { Grid, Stack } from '@mantine/core';

import { useSession } from '@/api/session';

import { Checkpoint } from '../checkpoint/Checkpoint';
import { rightsTo, type Job } from '../queries';
import { JobProgress } from '../tasks/Progress';
import { Starting } from '../tasks/Waiting';
import { Attempts } from './Attempts';
import { Exit } from './Exit';
import { Explain } from './Explain';
import { Children, Cost, Facts } from './Facts';
import { Timeline } from './Timeline';

export function Overview({ job }: { job: Job }) {
  const session = useSession();
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, lg: 8 }}>
        <Stack>
          <Exit job={job} />
          {job.state === 'queued' && <Explain job={job} />}
          {(job.state === 'admitted' || job.state === 'starting') && <Starting job={job} />}
          <Children job={job} />
          <JobProgress job={job} />
          <Timeline job={job} />
          {job.attempt > 1 && <Attempts job={job} />}
        </Stack>
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 4 }}>
        <Stack>
          <Facts job={job} />
          <Checkpoint job={job} />
          {rightsTo(job, session).edit && session.has('billing') && <Cost job={job} />}
        </Stack>
      </Grid.Col>
    </Grid>
  );
}
