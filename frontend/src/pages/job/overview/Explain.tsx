/** Why a job waits: the API's own words and numbers, its place, when it may start, and which change would start it. */

import { Anchor, Button, Group, List, Paper, SimpleGrid, Stack, Text, ThemeIcon, Title } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { isolate } from '@/text/isolate';
import { useText, type Translate } from '@/text/language';
import { Answer, Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';
import { Window } from '@/ui/Window';

import type { Job } from '../queries';
import { words } from './text';

type Explained = Schemas['ExplainOut'];
type Unmet = Schemas['UnmetOut'];
type Suggestion = Schemas['SuggestionOut'];

const EVERY_MS = 15_000; // What keeps a job waiting is mostly other jobs, whose events are not its own.

export function Explain({ job }: { job: Job }) {
  const t = useText(words);
  const query = useQuery({
    queryKey: ['job', job.id, 'explain'],
    refetchInterval: EVERY_MS,
    queryFn: () => take(api.GET('/api/v1/jobs/{job}/explain', { params: { path: { job: job.id } } })),
  });
  return (
    <Paper withBorder p="md" component="section" aria-label={t('explainTitle')} style={{ overflowWrap: 'anywhere' }}>
      <Title order={2} size="h4" mb="sm">
        {t('explainTitle')}
      </Title>
      {job.reason && (
        <Stack gap={2} mb="md">
          <Text fw={600}>
            <Said text={job.reason.text} />
          </Text>
          {job.reason.hint && (
            <Text c="dimmed">
              <Said text={job.reason.hint} />
            </Text>
          )}
        </Stack>
      )}
      <Answer query={query}>{(explained) => <Panel explained={explained} />}</Answer>
    </Paper>
  );
}

function Panel({ explained }: { explained: Explained }) {
  const t = useText(words);
  return (
    <Stack gap="md">
      {explained.starts && <Text fw={600}>{t('starts')}</Text>}
      {explained.now && <Now now={explained.now} foundAt={explained.reason?.found_at ?? null} />}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="lg">
        <Place explained={explained} />
        <Expected explained={explained} />
      </SimpleGrid>
      {explained.conditions.length > 0 && (
        <div>
          <Title order={3} size="h5" mb={6}>
            {t('conditions')}
          </Title>
          <Stack gap="sm">
            {explained.conditions.map((condition, index) => (
              <Condition key={`${condition.code}-${index}`} condition={condition} />
            ))}
          </Stack>
        </div>
      )}
      <div>
        <Title order={3} size="h5" mb={6}>
          {t('suggestions')}
        </Title>
        {explained.suggestions.length === 0 && !explained.suggestions_bounded && <Text c="dimmed">{t('suggestionsNone')}</Text>}
        <Stack gap="xs">
          {explained.suggestions.map((suggestion, index) => (
            <SuggestionRow key={`${suggestion.kind}-${index}`} suggestion={suggestion} />
          ))}
        </Stack>
        {explained.suggestions_bounded && <Text c="dimmed">{t('suggestionsBounded')}</Text>}
      </div>
    </Stack>
  );
}

/** Why it waits by now, where the reason above has gone since it was found. */
export function Now({ now, foundAt }: { now: Schemas['ReasonOut']; foundAt: string | null }) {
  const t = useText(words);
  const format = useFormat();
  return (
    <div>
      <Text fw={600}>
        {t('reasonNow')} <Said text={now.text} />
      </Text>
      {foundAt && (
        <Text size="sm" c="dimmed">
          {t('reasonOf', { time: format.time(foundAt) })}
        </Text>
      )}
    </div>
  );
}

function Place({ explained }: { explained: Explained }) {
  const t = useText(words);
  const format = useFormat();
  const { place, factors } = explained;
  if (!place) return null;
  return (
    <div>
      {place.in_queue === null ? (
        <Text>{t('noPlace')}</Text>
      ) : (
        <>
          <Text fw={600}>{t('placeQueue', { place: place.in_queue, length: place.queue_length })}</Text>
          {place.in_pool !== null && <Text size="sm">{t('placePool', { place: place.in_pool, length: place.pool_length })}</Text>}
        </>
      )}
      {factors && (
        <List size="sm" c="dimmed" mt={4} aria-label={t('factors')}>
          <List.Item>{t('factorPriority', { priority: factors.priority, duration: format.duration(factors.priority_seconds) })}</List.Item>
          <List.Item>{t('factorWaited', { duration: format.duration(factors.waited_seconds) })}</List.Item>
          {factors.order_seconds !== 0 && <List.Item>{t('factorMoved', { duration: `${factors.order_seconds < 0 ? '−' : '+'}${format.duration(Math.abs(factors.order_seconds))}` })}</List.Item>}
          {factors.queues.map((factor, index) => (
            <List.Item key={factor.queue?.id ?? index}>
              {factor.is_owed
                ? t('factorOwed', { queue: factor.queue?.name ?? '–' })
                : t('factorShare', { queue: factor.queue?.name ?? '–', share: format.percent(factor.share_now / 1e9) })}
            </List.Item>
          ))}
        </List>
      )}
    </div>
  );
}

function Expected({ explained }: { explained: Explained }) {
  const t = useText(words);
  const format = useFormat();
  const { expected, latest } = explained;
  if (!expected && !latest) return null;
  const past = expected?.past;
  return (
    <div>
      <Text fw={600}>{t('expected')}</Text>
      {expected &&
        (expected.p50_at || expected.p90_at ? (
          <Text size="sm">
            {expected.p50_at && t('p50', { time: format.time(expected.p50_at) })}
            {!expected.p50_at && expected.reason === 'uncertain' && t('uncertain')}
            {!expected.p50_at && expected.reason === 'little_history' && t('littleHistoryLikely')}
            {expected.p50_at && expected.error !== null && ` ${t('error', { share: format.percent(expected.error) })}`}
            <br />
            {expected.p90_at && t('p90', { time: format.time(expected.p90_at) })}
          </Text>
        ) : (
          <Text size="sm">{expected.was_by ? t('overdue', { time: format.time(expected.was_by) }) : expected.known_by ? t('notYet', { time: format.time(expected.known_by) }) : unexpected(expected.reason, t)}</Text>
        ))}
      {past && (
        <Text size="xs" c="dimmed">
          {past.predictions > 0 && past.by_p90 !== null && past.median_error_seconds !== null
            ? t('past', { count: past.predictions, share: format.percent(past.by_p90), error: format.duration(past.median_error_seconds) })
            : t('pastNone')}
        </Text>
      )}
      {latest?.text && (
        <Text size="sm" mt={6}>
          <b>{t('latestStart')}:</b> {latest.at ? format.time(latest.at) : '–'}
          <Text size="xs" c="dimmed" span display="block">
            <Said text={latest.text} />
          </Text>
        </Text>
      )}
    </div>
  );
}

const UNEXPECTED = { little_history: 'littleHistory', unknown_ends: 'unknownEnds', horizon: 'beyond', passes: 'beyond', too_many: 'tooMany' } as const;

/** Why no time can be told, in words where the code has some. */
function unexpected(reason: string, t: Translate<keyof (typeof words)['en']>): string {
  const key = Object.hasOwn(UNEXPECTED, reason) ? UNEXPECTED[reason as keyof typeof UNEXPECTED] : undefined;
  return t(key ?? 'notExpected');
}

export function Condition({ condition }: { condition: Unmet }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  return (
    <Group gap="sm" wrap="nowrap" align="flex-start">
      <ThemeIcon variant="light" color="yellow" size="sm" mt={2}>
        <Icon name="hourglass" size={12} />
      </ThemeIcon>
      <Stack gap={2} miw={0}>
        <Text><Said text={condition.text} /></Text>
        {condition.until && (
          <Text size="sm" c="dimmed">
            {t('until')} {format.time(condition.until)}
          </Text>
        )}
        {condition.filters.map((filter) => (
          <Text key={filter.code} size="sm" c="dimmed">
            {t('machines', { count: filter.machines, text: filter.text })}
            {filter.never > 0 && ` (${t('never', { count: filter.never })})`}
          </Text>
        ))}
        {condition.held_by.map((holder, index) => (
          <Text key={index} size="sm" c="dimmed">
            {t('heldBy')} {holder.queue ? `${c('queue')} ${isolate(holder.queue.name)}` : t('otherTenants')}
            {' ('}
            {t(holder.kept ? 'kept' : holder.standing)}
            {'): '}
            {holder.gpu_millis > 0 && `${format.milli(holder.gpu_millis)} ${c('gpus')}, `}
            {format.milli(holder.cpu_millis)} {c('cores')}, {format.bytes(holder.memory_bytes)}
          </Text>
        ))}
        {condition.jobs.length > 0 && (
          <Text size="sm" component="div">
            {t('aboutJobs')}{' '}
            {condition.jobs.map((job) => (
              <Anchor key={job.id} component={Link} to={`/jobs/${job.id}`} size="sm" mr="xs">
                {job.name}
              </Anchor>
            ))}
          </Text>
        )}
      </Stack>
    </Group>
  );
}

function SuggestionRow({ suggestion }: { suggestion: Suggestion }) {
  const t = useText(words);
  const [isOpen, setOpen] = useState(false);
  const asked = useMutation({
    mutationFn: () => take(api.POST('/api/v1/what-if', { body: { changes: suggestion.changes } })),
  });
  return (
    <Group gap="sm" justify="space-between" wrap="wrap">
      <Group gap="xs" style={{ flex: '1 1 18rem' }}>
        <Text style={{ flex: '0 1 auto' }}>
          <Said text={suggestion.text} />
        </Text>
        <Mark
          icon={suggestion.starts_now ? 'play' : 'alert'}
          color={suggestion.starts_now ? 'teal' : 'orange'}
          label={suggestion.starts_now ? t('startsNow') : t('startsAfter', { count: suggestion.evicts_count })}
          size="sm"
        />
      </Group>
      {suggestion.changes.length > 0 && (
        <Button
          size="compact-sm"
          variant="subtle"
          aria-haspopup="dialog"
          onClick={() => {
            setOpen(true);
            asked.mutate();
          }}
        >
          {t('tryIt')}
        </Button>
      )}
      <Window opened={isOpen} onClose={() => setOpen(false)} title={t('tryTitle')}>
        <Stack>
          <Text fw={600}>
            <Said text={suggestion.text} />
          </Text>
          {asked.isPending && <Loading lines={3} />}
          {asked.error && <ProblemView error={asked.error} />}
          {asked.data && <WhatIf answer={asked.data} />}
        </Stack>
      </Window>
    </Group>
  );
}

function WhatIf({ answer }: { answer: Schemas['WhatIfOut'] }) {
  const t = useText(words);
  const parts = [
    { title: t('tryStarts'), list: answer.starts },
    { title: t('tryWaits'), list: answer.waits },
    { title: t('tryEvicted'), list: answer.evicted },
    { title: t('tryDisplaced'), list: answer.displaced },
  ].filter((part) => part.list.jobs.length + part.list.others > 0);
  if (parts.length === 0) return <Text>{t('tryNothing')}</Text>;
  return (
    <Stack gap="sm">
      {parts.map((part) => (
        <div key={part.title}>
          <Text fw={600}>{part.title}</Text>
          <List size="sm">
            {part.list.jobs.map((one) => (
              <List.Item key={one.job.id}>
                <Anchor component={Link} to={`/jobs/${one.job.id}`}>
                  {one.job.name}
                </Anchor>
                {one.pool && ` · ${one.pool}`}
              </List.Item>
            ))}
            {part.list.others > 0 && <List.Item>{t('others', { count: part.list.others })}</List.Item>}
          </List>
        </div>
      ))}
    </Stack>
  );
}
