/** Result, time and cost of two runs as a table: what differs says so in words, and by how much where it can be counted. */

import { Paper, Table, Text, Title } from '@mantine/core';

import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { plain } from '@/ui/plain';
import { isJobState } from '@/ui/Status';

import classes from './Compare.module.css';
import { factsOf, type Saying } from './facts';
import type { Compared } from './sides';
import { words } from './text';

export function Facts({ a, b, isNarrow }: { a: Compared; b: Compared; isNarrow: boolean }) {
  const t = useText(words);
  const facts = factsOf(a, b, useSaying()).filter((fact) => !isNarrow || !fact.isSame);
  return (
    <Paper withBorder p="md" component="section" aria-label={t('facts')}>
      <Title order={2} size="h4" mb="sm">
        {t('facts')}
      </Title>
      {facts.length === 0 ? (
        <Text c="dimmed">{t('noDifferences')}</Text>
      ) : (
        <Table.ScrollContainer minWidth={520}>
          <Table verticalSpacing={6} layout="fixed" aria-label={t('facts')}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th w="22%">{t('what')}</Table.Th>
                <Table.Th>{t('runA')}</Table.Th>
                <Table.Th>{t('runB')}</Table.Th>
                <Table.Th w="18%">{t('difference')}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {facts.map((fact) => (
                <Table.Tr key={fact.name} className={fact.isSame ? undefined : classes.differs}>
                  <Table.Th scope="row" fw={500}>
                    {t(fact.name)}
                  </Table.Th>
                  {[fact.a, fact.b].map((value, index) => (
                    <Table.Td key={index} style={{ whiteSpace: 'pre-line', overflowWrap: 'anywhere' }}>
                      <bdi>{value}</bdi>
                    </Table.Td>
                  ))}
                  <Table.Td fw={fact.isSame ? undefined : 600} c={fact.isSame ? 'dimmed' : undefined}>
                    {fact.isSame ? t('same') : fact.change || t('differs')}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Paper>
  );
}

function useSaying(): Saying {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const stateText = (state: string) => (isJobState(state) ? c(state) : state === 'preempted' ? t('preempted') : state);
  return {
    format,
    noLimit: t('noLimit'),
    end: (job) => (job.state === 'succeeded' || !job.reason ? stateText(job.state) : `${stateText(job.state)}: ${plain(job.reason.text)}`),
    outcome: (attempt) => {
      const state = stateText(attempt.outcome ?? attempt.state);
      const seconds = attempt.started_at && attempt.ended_at ? (Date.parse(attempt.ended_at) - Date.parse(attempt.started_at)) / 1000 : null;
      const reason = attempt.exit && attempt.outcome !== 'succeeded' ? attempt.exit.reason : '';
      return t(reason ? 'outcomeWhy' : 'outcome', { state, duration: format.duration(seconds), reason });
    },
  };
}
