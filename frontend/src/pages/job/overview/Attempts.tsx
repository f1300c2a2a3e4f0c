/** Earlier tries of a job that was tried more than once: where each ran, how it ended. */

import { Anchor, Paper, Table, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Answer } from '@/ui/Feedback';
import { isJobState, Status } from '@/ui/Status';
import { Elapsed, When } from '@/ui/Times';

import { attemptsQuery, type Job } from '../queries';
import { words } from './text';

export function Attempts({ job }: { job: Job }) {
  const t = useText(words);
  const c = useText(common);
  const query = useQuery(attemptsQuery(job.id));
  return (
    <Paper withBorder p="md" component="section" aria-label={t('attempts')}>
      <Title order={2} size="h4" mb="sm">
        {t('attempts')}
      </Title>
      <Answer query={query}>
        {(page) => (
          <Table.ScrollContainer minWidth={460}>
            <Table verticalSpacing={6}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>#</Table.Th>
                  <Table.Th>{t('outcome')}</Table.Th>
                  <Table.Th>{c('reason')}</Table.Th>
                  <Table.Th>{c('pool')}</Table.Th>
                  <Table.Th>{t('began')}</Table.Th>
                  <Table.Th ta="right">{t('lasted')}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {page.items.map((attempt) => {
                  const state = attempt.outcome ?? attempt.state;
                  return (
                    <Table.Tr key={attempt.id}>
                      <Table.Td>
                        <Anchor component={Link} to={`/jobs/${job.id}/logs?attempt=${attempt.number}`}>
                          {attempt.number}
                        </Anchor>
                      </Table.Td>
                      <Table.Td>{isJobState(state) ? <Status state={state} size="sm" /> : state === 'preempted' ? t('preempted') : state}</Table.Td>
                      <Table.Td>{attempt.exit ? `${attempt.exit.reason}${attempt.exit.code ? ` (${t('exitCode', { code: attempt.exit.code })})` : ''}` : (attempt.stop_cause?.replaceAll('_', ' ') ?? '')}</Table.Td>
                      <Table.Td>{attempt.pool}</Table.Td>
                      <Table.Td>
                        <When at={attempt.started_at ?? attempt.created_at} />
                      </Table.Td>
                      <Table.Td ta="right">
                        <Elapsed from={attempt.started_at} to={attempt.ended_at} />
                      </Table.Td>
                    </Table.Tr>
                  );
                })}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Answer>
    </Paper>
  );
}
