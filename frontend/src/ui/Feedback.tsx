/** What a page shows while it loads, when there is nothing, and when something is wrong. */

import { Alert, Anchor, Button, Center, Code, Group, List, Skeleton, Stack, Text } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import { useEffect, useRef, type ReactNode } from 'react';

import { asProblem } from '@/api/problem';
import { common } from '@/text/common';
import { useText } from '@/text/language';

import { Icon, type IconName } from './Icon';
import { Said } from './Said';

export function Loading({ lines = 4 }: { lines?: number }) {
  const t = useText(common);
  return (
    <Stack gap="sm" role="status" aria-label={t('loading')} aria-busy="true">
      {Array.from({ length: lines }, (_, index) => (
        <Skeleton key={index} height={index === 0 ? 28 : 18} width={index === lines - 1 ? '60%' : '100%'} />
      ))}
    </Stack>
  );
}

/** Nothing is there: why that is fine, and the next step, with its command where there is one. */
export function Empty({ icon = 'info', title, children, command, action }: { icon?: IconName; title: string; children?: ReactNode; command?: string; action?: ReactNode }) {
  return (
    <Center py="xl">
      <Stack align="center" gap="sm" maw={520} miw={0}>
        <Text c="dimmed" component="span">
          <Icon name={icon} size={40} />
        </Text>
        <Text fw={600} size="lg" ta="center">
          {title}
        </Text>
        {children && (
          <Text c="dimmed" ta="center" component="div" style={{ overflowWrap: 'anywhere' }}>
            {children}
          </Text>
        )}
        {action}
        {command && (
          <Code block maw="100%" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
            {command}
          </Code>
        )}
      </Stack>
    </Center>
  );
}

/** A failure in the API's own words, with what to do next. */
export function ProblemView({ error, retry, title }: { error: unknown; retry?: () => void; title?: string }) {
  const t = useText(common);
  const problem = asProblem(error);
  useAgain(problem.status === 0 ? retry : undefined);
  const heading =
    title ?? (problem.status === 0 ? t('offlineTitle') : problem.status === 403 ? t('forbiddenTitle') : problem.status === 404 ? t('missingTitle') : problem.title || t('failedTitle'));
  const detail = problem.status === 0 ? t('offlineHint') : problem.detail;
  return (
    <Alert color={problem.status === 0 || problem.status === 404 ? 'gray' : 'red'} icon={<Icon name="alert" />} title={heading} role="alert">
      <Stack gap="xs">
        {detail && (
          <Text size="sm">
            <Said text={detail} />
          </Text>
        )}
        {problem.status === 404 && !problem.hint && <Text size="sm">{t('missingHint')}</Text>}
        {problem.fields.length > 0 && (
          <List size="sm">
            {problem.fields.slice(0, 50).map((field, index) => (
              <List.Item key={`${field.path}-${index}`}>
                <Code>{field.path || '/'}</Code> {field.line ? `${t('atLine', { line: field.line })}: ` : ''}
                <Said text={[field.message, field.hint]} />
              </List.Item>
            ))}
          </List>
        )}
        {problem.hint && (
          <Text size="sm" fw={600}>
            <Said text={problem.hint} />
          </Text>
        )}
        {(retry || problem.requestId || problem.rule) && (
          <Group gap="sm">
            {retry && (
              <Button size="xs" variant="default" onClick={retry} leftSection={<Icon name="refresh" size={14} />}>
                {t('retry')}
              </Button>
            )}
            {problem.rule && (
              <Anchor href={problem.rule} target="_blank" rel="noreferrer" size="sm">
                {t('rule')}
              </Anchor>
            )}
            {problem.requestId && (
              <Text size="xs" c="dimmed">
                {t('requestId', { id: problem.requestId })}
              </Text>
            )}
          </Group>
        )}
      </Stack>
    </Alert>
  );
}

const AGAIN_MS = 5_000;

/** What cannot be reached is tried again by itself, as the message says. */
function useAgain(retry: (() => void) | undefined): void {
  const latest = useRef(retry);
  useEffect(() => {
    latest.current = retry;
  });
  const isOn = retry !== undefined;
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => latest.current?.(), AGAIN_MS);
    return () => clearInterval(timer);
  }, [isOn]);
}

/** The usual three ends of a query: waiting, failed, there. What was there before stays while it is read anew. */
export function Answer<T>({ query, children, lines }: { query: UseQueryResult<T>; children: (data: T) => ReactNode; lines?: number }) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <ProblemView error={query.error} retry={() => void query.refetch()} />;
  return <Loading lines={lines} />;
}
