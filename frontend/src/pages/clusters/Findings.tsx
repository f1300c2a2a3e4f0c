/** The result of a check, line by line, with what to do next. */

import { Alert, Group, List, Loader, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';

import { api, take, type Schemas } from '@/api/client';
import type { Cluster } from '@/api/fleet';
import { useText } from '@/text/language';
import { Dialog } from '@/ui/Dialog';
import { ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';

import { words } from './text';

export type Check = Schemas['ClusterCheckOut'];

const LOOK = { ok: { icon: 'check', color: 'teal', word: 'checkOk' }, warning: { icon: 'alert', color: 'yellow', word: 'checkWarning' }, failed: { icon: 'cross', color: 'red', word: 'checkFailed' } } as const;

export function Findings({ check }: { check: Check }) {
  const t = useText(words);
  const shown = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void shown.current?.scrollIntoView({ block: 'nearest' }); // Below a long form it would not be seen. Newer browsers answer a promise.
  }, [check]);
  return (
    <Stack gap="xs" role="status" ref={shown}>
      <Alert color={LOOK[check.outcome].color} icon={<Icon name={LOOK[check.outcome].icon} />} py="xs">
        {t(check.outcome === 'ok' ? 'allOk' : check.outcome === 'warning' ? 'someWarnings' : 'someFailed')}
      </Alert>
      <List size="sm" listStyleType="none" spacing="xs" aria-label={t('checkResult')}>
        {check.items.map((item, index) => (
          <List.Item key={`${item.check}${index}`}>
            <Group gap="xs" wrap="nowrap" align="flex-start">
              <Mark icon={LOOK[item.outcome].icon} color={LOOK[item.outcome].color} label={t(LOOK[item.outcome].word)} size="sm" />
              <div style={{ minWidth: 0, overflowWrap: 'anywhere' }}>
                <Text size="sm">
                  <Said text={item.text} />
                </Text>
                {item.hint && (
                  <Text size="sm" c="dimmed">
                    <Said text={item.hint} />
                  </Text>
                )}
              </div>
            </Group>
          </List.Item>
        ))}
      </List>
    </Stack>
  );
}

/** A check of a cluster as it is, asked for by its button. */
export function CheckButton({ cluster }: { cluster: Cluster }) {
  const t = useText(words);
  return (
    <Dialog label={t('checkNow')} title={t('checkTitle', { name: cluster.name })} aria-label={`${t('checkNow')}: ${cluster.name}`} buttonSize="compact-sm" variant="default" size="lg">
      {() => <CheckNow cluster={cluster} />}
    </Dialog>
  );
}

function CheckNow({ cluster }: { cluster: Cluster }) {
  const t = useText(words);
  const check = useQuery({
    queryKey: ['cluster-check', cluster.id, cluster.version],
    gcTime: 0,
    staleTime: Infinity,
    retry: false,
    queryFn: ({ signal }) => take(api.POST('/api/v1/clusters/{cluster_id}/check', { params: { path: { cluster_id: cluster.id } }, body: {}, signal })),
  });
  if (check.error) return <ProblemView error={check.error} retry={() => void check.refetch()} />;
  if (!check.data)
    return (
      <Group role="status">
        <Loader size="sm" />
        <Text size="sm">{t('checking')}</Text>
      </Group>
    );
  return <Findings check={check.data} />;
}
