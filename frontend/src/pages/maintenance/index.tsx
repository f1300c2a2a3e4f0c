/** Maintenance windows: what is planned and under way, what was, and planning with the affected jobs in sight. */

import { Button, Card, Group, SegmentedControl, Stack, Text } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { Plan } from './Plan';
import { words } from './text';

type Window = Schemas['MaintenanceOut'];

export default function Maintenance() {
  const t = useText(words);
  const w = useText(common);
  const { isOperator } = useSession();
  const [search, put] = useAddress();
  const isOpen = search.get('show') !== 'past';
  const [isPlanning, setPlanning] = useState(false);
  const windows = useInfiniteQuery({
    queryKey: ['maintenance', isOpen],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: { next: string | null }) => page.next ?? undefined,
    queryFn: ({ pageParam, signal }) => take(api.GET('/api/v1/maintenance', { params: { query: { open: isOpen, limit: 50, cursor: pageParam } }, signal })),
  });
  const rows = windows.data?.pages.flatMap((page) => page.items) ?? [];
  const plan = isOperator && (
    <Button leftSection={<Icon name="maintenance" size={16} />} aria-haspopup="dialog" onClick={() => setPlanning(true)}>
      {t('plan')}
    </Button>
  );
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <>
          <CopyAs ways={{ curl: `${curl('GET', '/maintenance?open=true')}\n\n${curl('POST', '/maintenance', { pool: 'a100', starts_at: '2027-01-01T20:00:00Z', ends_at: '2027-01-01T23:00:00Z', reason: 'New driver.', drain: true })}`, python: 'import berth\n\nclient = berth.Client()\nfor window in client.request("GET", "/maintenance", params={"open": True})["items"]:\n    print(window["starts_at"], window["ends_at"], window["reason"])' }} />
          {plan}
        </>
      }
    >
      <SegmentedControl
        w="fit-content"
        aria-label={w('state')}
        value={isOpen ? 'open' : 'past'}
        onChange={(value) => put({ show: value === 'past' ? 'past' : null })}
        data={[
          { value: 'open', label: t('open') },
          { value: 'past', label: t('past') },
        ]}
      />
      {windows.error && rows.length === 0 ? (
        <ProblemView error={windows.error} retry={() => void windows.refetch()} />
      ) : windows.isPending ? (
        <Loading />
      ) : rows.length === 0 ? (
        isOpen ? (
          <Empty icon="maintenance" title={t('noneOpen')} action={plan}>
            {t('noneOpenHint')}
          </Empty>
        ) : (
          <Text c="dimmed">{t('nonePast')}</Text>
        )
      ) : (
        <Stack>
          {rows.map((row) => (
            <WindowCard key={row.id} window={row} />
          ))}
          {windows.hasNextPage && (
            <Button variant="default" loading={windows.isFetchingNextPage} onClick={() => void windows.fetchNextPage()}>
              {w('more')}
            </Button>
          )}
        </Stack>
      )}
      {isPlanning && <Plan close={() => setPlanning(false)} />}
    </Page>
  );
}

const LOOK = {
  planned: { icon: 'clock', color: 'blue' },
  active: { icon: 'maintenance', color: 'orange' },
  over: { icon: 'check', color: 'teal' },
  cancelled: { icon: 'cross', color: 'gray' },
} as const;

function WindowCard({ window: row }: { window: Window }) {
  const t = useText(words);
  const format = useFormat();
  const { isOperator } = useSession();
  const isOpen = row.state === 'planned' || row.state === 'active';
  const end = async () => {
    await take(api.DELETE('/api/v1/maintenance/{window_id}', { params: { path: { window_id: row.id } } }));
    await Promise.all([queries.invalidateQueries({ queryKey: ['maintenance'] }), queries.invalidateQueries({ queryKey: ['nodes'] })]);
  };
  const names = row.nodes.slice(0, 8).map((node) => node.name);
  return (
    <Card withBorder component="article" aria-label={row.reason || t('title')}>
      <Group justify="space-between" align="flex-start">
        <Stack gap={4} style={{ flex: '1 1 16rem', minWidth: 0 }}>
          <Group gap="xs">
            <Mark icon={LOOK[row.state].icon} color={LOOK[row.state].color} label={t(row.state)} />
            <Text fw={600} style={{ overflowWrap: 'anywhere' }}>
              {row.pool ? t('wholePool', { pool: row.pool.name }) : names.join(', ')}
            </Text>
            <Text size="sm" c="dimmed">
              {t('count', { count: row.node_count })}
            </Text>
          </Group>
          <Text size="sm" title={`${format.timeWithZone(row.starts_at)} – ${format.timeWithZone(row.ends_at)}`}>
            {format.time(row.starts_at)} – {format.time(row.ends_at)}{' '}
            <Text span size="sm" c="dimmed">
              ({isOpen ? <When at={row.state === 'planned' ? row.starts_at : row.ends_at} size="sm" /> : <When at={row.ended_at} size="sm" />})
            </Text>
          </Text>
          {row.reason && (
            <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
              {row.reason}
            </Text>
          )}
          <Text size="xs" c="dimmed">
            {t(row.drain ? 'makesWay' : 'mayEnd')} · {t('by', { user: row.created_by })}
          </Text>
        </Stack>
        {isOperator && isOpen && (
          <Confirm size="xs" variant="light" color="red" label={t(row.state === 'active' ? 'endNow' : 'giveUp')} title={t(row.state === 'active' ? 'endTitle' : 'giveUpTitle')} act={end}>
            {t('giveUpHint')}
          </Confirm>
        )}
      </Group>
    </Card>
  );
}
