/** A job's life as a bar for each try, and the same as a list: which phase, why, for how long. */

import { Paper, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';

import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { localized } from '@/text/moments';
import { Answer } from '@/ui/Feedback';
import { isJobState, Status } from '@/ui/Status';
import { Elapsed, useNow, When } from '@/ui/Times';

import { timelineQuery, type Job } from '../queries';
import { triesOf, type Phase, type Try } from './phases';
import { words } from './text';
import classes from './Timeline.module.css';

export function Timeline({ job }: { job: Job }) {
  const t = useText(words);
  const query = useQuery(timelineQuery(job.id));
  return (
    <Paper withBorder p="md" component="section" aria-label={t('timeline')}>
      <Title order={2} size="h4" mb="sm">
        {t('timeline')}
      </Title>
      <Answer query={query}>{(timeline) => <Tries phases={timeline.phases} readAt={query.dataUpdatedAt} />}</Answer>
    </Paper>
  );
}

function Tries({ phases, readAt }: { phases: readonly Phase[]; readAt: number }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const tries = triesOf(phases);
  return (
    <Stack gap="md">
      {tries.map((one, index) => (
        <Bar key={index} one={one} readAt={readAt} />
      ))}
      <Table.ScrollContainer minWidth={420} mah={360}>
        <Table verticalSpacing={6} stickyHeader>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t('phase')}</Table.Th>
              <Table.Th>{t('cause')}</Table.Th>
              <Table.Th>{t('began')}</Table.Th>
              <Table.Th ta="right">{t('lasted')}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {tries.map((one, index) => (
              <Fragment key={index}>
                {tries.length > 1 && (
                  <Table.Tr>
                    <Table.Th colSpan={4} scope="colgroup">
                      {one.attempt === null ? t('waiting') : t('attempt', { number: one.attempt })}
                    </Table.Th>
                  </Table.Tr>
                )}
                {one.phases.map((phase) => (
                  <Table.Tr key={phase.began_at + phase.phase}>
                    <Table.Td>
                      <Status state={phase.phase} size="sm" />
                    </Table.Td>
                    <Table.Td>{localized(phase.reason_text ?? '', format)}</Table.Td>
                    <Table.Td>
                      <When at={phase.began_at} />
                    </Table.Td>
                    <Table.Td ta="right">
                      <Elapsed from={phase.began_at} to={phase.ended_at} />
                      {!phase.ended_at && ` ${t('now')}`}
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Fragment>
            ))}
            {tries.length === 0 && (
              <Table.Tr>
                <Table.Td colSpan={4}>{c('nothingYet')}</Table.Td>
              </Table.Tr>
            )}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}

/** Tenths of a second matter in what is short, and only there. */
const whole = (seconds: number) => (seconds < 10 ? Math.round(seconds * 10) / 10 : Math.floor(seconds));

/** An array runs without an attempt of its own. */
const isOnlyWait = (one: Try) => one.phases.every((phase) => phase.phase === 'queued');

function Bar({ one, readAt }: { one: Try; readAt: number }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const now = useNow();
  const seconds = (phase: Phase) => (phase.ended_at ? phase.seconds : phase.seconds + Math.max(0, (now - readAt) / 1000));
  const total = one.phases.reduce((sum, phase) => sum + seconds(phase), 0);
  const name = (phase: Phase) => (isJobState(phase.phase) ? c(phase.phase) : phase.phase);
  return (
    <div>
      <Text size="xs" c="dimmed" mb={4}>
        {one.attempt !== null ? `${t('attempt', { number: one.attempt })} · ` : isOnlyWait(one) ? `${t('waiting')} · ` : ''}
        {t('total', { duration: format.duration(whole(total)) })}
      </Text>
      <div className={classes.bar} role="img" aria-label={one.phases.map((phase) => `${name(phase)} ${format.duration(phase.seconds)}`).join(', ')}>
        {one.phases.map((phase) => (
          <div
            key={phase.began_at + phase.phase}
            className={classes.part}
            data-phase={phase.phase}
            data-live={phase.ended_at === null || undefined}
            style={{ flexGrow: 1 + (total > 0 ? (seconds(phase) / total) * 400 : 0) }}
            title={`${name(phase)}: ${format.duration(phase.seconds)}`}
          >
            <span>
              {name(phase)} {format.duration(whole(seconds(phase)))}
            </span>
          </div>
        ))}
      </div>
    </div>
  );
}
