/** Planning a window: where, when, why, and whose jobs run there now before anything is saved. */

import { Anchor, Card, MultiSelect, SegmentedControl, Select, SimpleGrid, Switch, Table, Text, Textarea } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { readAll, useNodes, usePools } from '@/api/fleet';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Form, refuse } from '@/ui/Dialog';
import { Answer } from '@/ui/Feedback';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { notify } from '@/ui/notify';
import { Window } from '@/ui/Window';

import { affectedOf } from './affected';
import { words } from './text';

const SHOWN_MAX = 100;

export function Plan({ close }: { close: () => void }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const pools = usePools();
  const nodes = useNodes();
  const [where, setWhere] = useState<'pool' | 'nodes'>('pool');
  const [pool, setPool] = useState<string | null>(null);
  const [chosen, setChosen] = useState<string[]>([]);
  const [starts, setStarts] = useState<TypedMoment>('');
  const [ends, setEnds] = useState<TypedMoment>('');
  const [reason, setReason] = useState('');
  const [drain, setDrain] = useState(true);
  const hasPlace = where === 'pool' ? pool !== null : chosen.length > 0;
  const ids = useMemo(() => new Set(where === 'nodes' ? chosen : (nodes.data ?? []).filter((node) => node.pool.id === pool).map((node) => node.id)), [where, chosen, nodes.data, pool]);

  const save = async () => {
    refuse({
      [where === 'pool' ? '/pool' : '/nodes']: !hasPlace && t('needsWhere'),
      '/starts_at': !starts && t('needsTime'),
      '/ends_at': !ends ? t('needsTime') : Boolean(starts && ends <= starts) && t('endsBefore'),
    });
    await take(
      api.POST('/api/v1/maintenance', {
        body: { ...(where === 'pool' ? { pool } : {}), nodes: where === 'nodes' ? chosen : [], starts_at: starts ?? '', ends_at: ends ?? '', reason, drain },
      }),
    );
    await queries.invalidateQueries({ queryKey: ['maintenance'] });
    notify(t('saved'));
    close();
  };
  return (
    <Window onClose={close} title={t('plan')} size="lg">
      <Form submit={save} onCancel={close} label={t('save')}>
        {(at) => (
          <>
            <SegmentedControl
              aria-label={t('where')}
              value={where}
              onChange={(value) => setWhere(value === 'nodes' ? 'nodes' : 'pool')}
              data={[
                { value: 'pool', label: t('wherePool') },
                { value: 'nodes', label: t('whereNodes') },
              ]}
            />
            {where === 'pool' ? (
              <Select label={w('pool')} required value={pool} onChange={setPool} data={(pools.data ?? []).map((one) => ({ value: one.id, label: `${one.cluster.name}/${one.name} (${t('count', { count: one.node_count })})` }))} error={at('/pool')} />
            ) : (
              <MultiSelect label={t('nodes')} required searchable placeholder={chosen.length === 0 ? t('chooseNodes') : undefined} limit={SHOWN_MAX} value={chosen} onChange={setChosen} data={(nodes.data ?? []).map((node) => ({ value: node.id, label: `${node.name} (${node.pool.name})` }))} error={at('/nodes')} />
            )}
            <SimpleGrid cols={{ base: 1, xs: 2 }}>
              <MomentInput label={t('starts')} required value={starts} onChange={setStarts} error={at('/starts_at')} />
              <MomentInput label={t('ends')} required value={ends} onChange={setEnds} error={at('/ends_at')} />
            </SimpleGrid>
            <Text size="xs" c="dimmed">
              {t('times', { zone: format.zoneName })}
            </Text>
            <Textarea label={w('reason')} value={reason} onChange={(event) => setReason(event.currentTarget.value)} maxLength={200} autosize error={at('/reason')} />
            <Switch label={t('drain')} description={t('drainHint')} checked={drain} onChange={(event) => setDrain(event.currentTarget.checked)} />
            <AffectedNow ids={ids} hasPlace={hasPlace} />
          </>
        )}
      </Form>
    </Window>
  );
}

/** From one reading of who is on which GPU and, for one node, from its own list, which knows jobs without GPUs too. */
function AffectedNow({ ids, hasPlace }: { ids: ReadonlySet<string>; hasPlace: boolean }) {
  const t = useText(words);
  const [single] = ids;
  const isSingle = ids.size === 1;
  const occupancy = useQuery({
    queryKey: ['nodes', 'occupied', 'plan'],
    enabled: hasPlace && !isSingle,
    queryFn: ({ signal }) =>
      readAll(async (page) => {
        const answer = await take(api.GET('/api/v1/occupancy', { params: { query: page }, signal }));
        return { items: answer.nodes, next: answer.next };
      }),
    select: (all) => affectedOf(all.filter((node) => ids.has(node.node_id))),
  });
  const one = useQuery({
    queryKey: ['node', single, 'affected'],
    enabled: hasPlace && isSingle && single !== undefined,
    queryFn: ({ signal }) => take(api.GET('/api/v1/nodes/{node_id}/affected', { params: { path: { node_id: single ?? '' } }, signal })),
    select: (answer) => ({ jobs: answer.jobs.map((row) => ({ id: row.job.id, name: row.job.name, tenant: row.tenant, user: row.user, gpus: null as number | null })), others: answer.others }),
  });
  return (
    <Card withBorder component="section" aria-label={t('affected')}>
      <Text fw={600} size="sm">
        {t('affected')}
      </Text>
      {!hasPlace ? (
        <Text size="sm" c="dimmed">
          {t('affectedUnknown')}
        </Text>
      ) : (
        <Answer query={isSingle ? one : occupancy} lines={2}>
          {(found) =>
            found.jobs.length === 0 && found.others === 0 ? (
              <Text size="sm">{t('affectedNone')}</Text>
            ) : (
              <>
                <Text size="xs" c="dimmed">
                  {t('affectedHint')}
                </Text>
                <Table.ScrollContainer minWidth={320} mah={220}>
                  <Table>
                    <Table.Tbody>
                      {found.jobs.slice(0, SHOWN_MAX).map((job) => (
                        <Table.Tr key={job.id}>
                          <Table.Td>
                            <Anchor component={Link} to={`/jobs/${job.id}`} size="sm">
                              {job.name}
                            </Anchor>
                          </Table.Td>
                          <Table.Td>{job.tenant}</Table.Td>
                          <Table.Td>{job.user}</Table.Td>
                          <Table.Td>{job.gpus === null ? '' : t('gpus', { count: job.gpus })}</Table.Td>
                        </Table.Tr>
                      ))}
                    </Table.Tbody>
                  </Table>
                </Table.ScrollContainer>
                {found.jobs.length > SHOWN_MAX && <Text size="xs">+{found.jobs.length - SHOWN_MAX}</Text>}
                {found.others > 0 && (
                  <Text size="xs" c="dimmed">
                    {t('others', { count: found.others })}
                  </Text>
                )}
              </>
            )
          }
        </Answer>
      )}
      {hasPlace && !isSingle && (
        <Text size="xs" c="dimmed">
          {t('gpuOnly')}
        </Text>
      )}
    </Card>
  );
}
