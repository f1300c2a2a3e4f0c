/** What two runs used, over each other: solid for A, dashed for B, on seconds since each began. */

import { Paper, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { useMemo } from 'react';

import { words as metricWords } from '@/pages/job/metrics/text';
import { unitOf } from '@/pages/job/metrics/units';
import { isArray } from '@/pages/job/queries';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Chart } from '@/ui/Chart';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';

import { coursesOf, type Run } from './courses';
import type { Compared } from './sides';
import { words } from './text';

const LOOKS = [
  { color: '#1c7ed6', stroke: 'solid' },
  { color: '#e8590c', stroke: 'dashed' },
] as const;
const LETTERS = ['A', 'B'] as const;

export function Curves({ a, b }: { a: Compared; b: Compared }) {
  const t = useText(words);
  const sides = [a, b];
  const isRead = sides.every((side) => side.series !== null || side.seriesError !== null || !side.isMeasurable);
  return (
    <Paper withBorder p="md" component="section" aria-label={t('curves')}>
      <Title order={2} size="h4">
        {t('curves')}
      </Title>
      <Text size="sm" c="dimmed" mb="md">
        {t('curvesHint')}
      </Text>
      {isRead ? <Read sides={sides} /> : <Loading lines={6} />}
    </Paper>
  );
}

function Read({ sides }: { sides: readonly Compared[] }) {
  const t = useText(words);
  const m = useText(metricWords);
  const format = useFormat();
  const courses = useMemo(() => coursesOf(sides.map((side): Run => ({ startedAt: startOf(side), series: side.series ?? [] }))), [sides]);
  const notes = sides.flatMap((side, index) => {
    const letter = LETTERS[index] ?? '';
    if (isArray(side.job)) return [t('arrayHint', { letter })];
    const isBare = courses.every((course) => course.lines[index]?.every((value) => value === null) ?? true);
    return [...(isBare && courses.length > 0 && !side.seriesError ? [t('oneNone', { letter })] : []), ...(side.job.gpus_simulated ? [t('simulated', { letter })] : [])];
  });
  return (
    <Stack>
      {sides.map((side, index) => side.seriesError !== null && <ProblemView key={index} error={side.seriesError} title={t('seriesFailed', { letter: LETTERS[index] ?? '' })} />)}
      {courses.length === 0 && sides.every((side) => side.seriesError === null) ? (
        <Empty icon="usage" title={t('none')}>
          {t('noneHint')}
        </Empty>
      ) : (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          {courses.map((course) => (
            <Chart
              key={course.metric}
              axis="elapsed"
              title={m(course.metric)}
              times={course.times}
              lines={course.lines.map((values, index) => ({ label: t(index === 0 ? 'runA' : 'runB'), values, ...LOOKS[index] }))}
              unit={unitOf(course.metric, format, m)}
              maximum={course.metric === 'gpu_utilization_ratio' ? 1 : undefined}
            />
          ))}
        </SimpleGrid>
      )}
      {notes.map((note) => (
        <Text key={note} size="sm" c="dimmed">
          {note}
        </Text>
      ))}
    </Stack>
  );
}

function startOf(side: Compared): number | null {
  const latest = side.attempts?.find((attempt) => attempt.number === side.job.attempt);
  return latest?.started_at ? Date.parse(latest.started_at) : null;
}
