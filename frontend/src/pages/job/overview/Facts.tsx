/** What a job asks for and what it costs, each in a small panel. */

import { Anchor, Code, Group, Paper, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { asProblem } from '@/api/problem';
import { common } from '@/text/common';
import { gibHours, sayHours, sayMoney } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyText } from '@/ui/CopyAs';
import { Answer } from '@/ui/Feedback';
import { isJobState, Status } from '@/ui/Status';
import { When } from '@/ui/Times';

import { costQuery, isArray, type Job } from '../queries';
import { words } from './text';


function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Table.Tr>
      <Table.Th w="9rem" fw={500} style={{ verticalAlign: 'top' }}>
        {name}
      </Table.Th>
      <Table.Td style={{ overflowWrap: 'anywhere' }}>{children}</Table.Td>
    </Table.Tr>
  );
}

export function Facts({ job }: { job: Job }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const labels = Object.entries(job.labels);
  return (
    <Paper withBorder p="md" component="section" aria-label={t('details')}>
      <Title order={2} size="h4" mb="xs">
        {t('details')}
      </Title>
      <Table verticalSpacing={5} withRowBorders={false}>
        <Table.Tbody>
          <Row name={c('gpus')}>{format.milli(job.resources.gpu_millis)}</Row>
          <Row name={c('cores')}>{format.milli(job.resources.cpu_millis)}</Row>
          <Row name={c('memory')}>{format.bytes(job.resources.memory_bytes)}</Row>
          <Row name={t('image')}>{job.image.name}</Row>
          <Row name={t('framework')}>{job.framework}</Row>
          <Row name={t('priority')}>{job.priority}</Row>
          <Row name={t('maxRuntime')}>{job.max_runtime_seconds === null ? t('noLimit') : format.duration(job.max_runtime_seconds)}</Row>
          {job.max_runtime_seconds === null && job.ended_at === null && (
            <Row name={t('plannedRuntime')}>{job.planned_runtime_seconds === null ? t('plannedForEver') : t('plannedFor', { time: format.duration(job.planned_runtime_seconds) })}</Row>
          )}
          <Row name={t('submitted')}>
            <When at={job.submitted_at} />
          </Row>
          <Row name={t('started')}>
            <When at={job.started_at} />
          </Row>
          {job.ended_at && (
            <Row name={t('endedAt')}>
              <When at={job.ended_at} />
            </Row>
          )}
          {labels.length > 0 && <Row name={t('labels')}>{labels.map(([key, value]) => `${key}=${value}`).join(', ')}</Row>}
          {job.isolation && <Row name={t('isolation')}>{job.isolation}</Row>}
          <Row name={t('jobId')}>
            <Group gap={4} wrap="nowrap">
              <Code>{job.id}</Code>
              <CopyText text={job.id} />
            </Group>
          </Row>
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

export function Children({ job }: { job: Job }) {
  const t = useText(words);
  const counts = Object.entries(job.counts ?? {}).filter(([state, count]) => isJobState(state) && count > 0);
  if (!isArray(job)) return null;
  return (
    <Paper withBorder p="md" component="section" aria-label={t('children')}>
      <Title order={2} size="h4" mb="sm">
        {t('children')}
      </Title>
      <Group gap="lg">
        {counts.map(([state, count]) => (
          <Anchor key={state} component={Link} to={`/jobs?parent=${job.id}&state=${state}`}>
            <Group gap={6}>
              <Text fw={600}>{count}</Text>
              <Status state={state} />
            </Group>
          </Anchor>
        ))}
      </Group>
    </Paper>
  );
}

export function Cost({ job }: { job: Job }) {
  const t = useText(words);
  const format = useFormat();
  const query = useQuery(costQuery(job.id));
  if (query.error && [403, 404].includes(asProblem(query.error).status)) return null; // Others' cost is not for everybody.
  return (
    <Paper withBorder p="md" component="section" aria-label={t('cost')}>
      <Title order={2} size="h4" mb="sm">
        {t('cost')}
      </Title>
      <Answer query={query} lines={2}>
        {(cost) => {
          const money = (micros: number) => sayMoney(format, micros, cost.currency);
          return (
            <Stack gap="xs">
              <SimpleGrid cols={2} spacing="xs">
                <Figure name={t('soFar')} value={money(cost.micros)} />
                <Figure name={t('perHour')} value={money(cost.micros_per_hour)} />
                <Figure name={t('gpuHours')} value={sayHours(format, cost.gpu_milli_seconds)} />
                <Figure name={t('coreHours')} value={sayHours(format, cost.cpu_milli_seconds)} />
              </SimpleGrid>
              {cost.gpu_measured_milli_seconds > 0 && (
                <Text size="sm">{t('gpusBusy', { share: format.percent(cost.gpu_busy_milli_seconds / cost.gpu_measured_milli_seconds), hours: sayHours(format, cost.gpu_measured_milli_seconds) })}</Text>
              )}
              <Text size="xs" c="dimmed">
                {t('costOfAttempts', { count: cost.attempts.length })} · {format.number(gibHours(cost.memory_byte_seconds), 2)} {t('memoryHours')}
              </Text>
            </Stack>
          );
        }}
      </Answer>
    </Paper>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <Text size="xs" c="dimmed">
        {name}
      </Text>
      <Text fw={600}>{value}</Text>
    </div>
  );
}
