/** A job's spec to read, copy and keep, and what it changed against the job that it repeats. */

import { Anchor, Button, Code, Group, Paper, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { writeSpec } from '@/pages/submit/spec';
import { useText } from '@/text/language';
import { CopyText } from '@/ui/CopyAs';
import { Answer } from '@/ui/Feedback';
import { save } from '@/ui/files';
import { Icon } from '@/ui/Icon';

import { DiffView } from '../DiffView';
import { compareAddress, specQuery, type Job } from '../queries';
import { words } from './text';

export default function Spec({ job }: { job: Job }) {
  const query = useQuery(specQuery(job.id));
  const origin = (job.origin as { id?: string } | null)?.id;
  return (
    <Answer query={query} lines={10}>
      {(spec) => {
        const text = writeSpec(spec);
        return (
          <Stack>
            {origin && <Against job={job} origin={origin} newer={text} />}
            <Shown job={job} text={text} />
          </Stack>
        );
      }}
    </Answer>
  );
}

function Shown({ job, text }: { job: Job; text: string }) {
  const t = useText(words);
  return (
    <Paper withBorder p="md" component="section" aria-label={t('asStored')}>
      <Group justify="space-between" mb="sm">
        <div>
          <Title order={2} size="h4">
            {t('asStored')}
          </Title>
          <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
            {t('digest', { digest: job.spec_digest })}
          </Text>
        </div>
        <Group gap="xs">
          <CopyText text={text} />
          <Button size="xs" variant="default" leftSection={<Icon name="download" size={14} />} onClick={() => save(`${job.name}.yaml`, text, 'application/yaml')}>
            {t('download')}
          </Button>
        </Group>
      </Group>
      <Code block tabIndex={0} style={{ overflow: 'auto' }}>
        {text}
      </Code>
    </Paper>
  );
}

function Against({ job, origin, newer }: { job: Job; origin: string; newer: string }) {
  const t = useText(words);
  const query = useQuery({ ...specQuery(origin), retry: false });
  return (
    <Paper withBorder p="md" component="section" aria-label={t('against')}>
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h4">
          {t('against')}
        </Title>
        <Group gap="md">
          <Anchor component={Link} to={compareAddress(origin, job.id)} size="sm">
            {t('compare')}
          </Anchor>
          <Anchor component={Link} to={`/jobs/${origin}`} size="sm">
            {t('toOrigin')}
          </Anchor>
        </Group>
      </Group>
      <Answer query={query} lines={3}>
        {(older) => <DiffView older={writeSpec(older)} newer={newer} />}
      </Answer>
    </Paper>
  );
}
