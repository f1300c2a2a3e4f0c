/** The tenant's queues: made, renamed and deleted here; their limits have a page of their own. */

import { Anchor, Box, Group, Select, Stack, Table, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { PagedView } from '@/ui/PagedView';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';

import type { Part } from './Tenant';
import { words } from './text';
import { asTree } from './tree';

type Queue = Schemas['QueueOut'];

export default function QueueList({ tenant, runs }: Part) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const list = usePaged<Queue>(['queues', 'of', tenant.slug], (cursor) => take(api.GET('/api/v1/queues', { params: { query: { tenant: tenant.slug, limit: 500, cursor } } })));
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed">{t('queuesHint')}</Text>
        {runs && (
          <Dialog label={t('newQueue')} title={t('newQueue')} leftSection={<Icon name="submit" size={16} />}>
            {(close) => <QueueForm tenant={tenant.slug} queues={list.rows ?? []} close={close} />}
          </Dialog>
        )}
      </Group>
      <PagedView list={list} empty={<Empty icon="queues" title={t('noQueues')} />}>
        {(rows) => (
          <SmallTable label={t('queues')} head={[c('name'), c('pool'), t('usedOf'), c('actions')]}>
            {asTree(rows, (row) => row.id, (row) => row.parent_id, (row) => row.name).map(({ row, depth }) => (
              <Table.Tr key={row.id}>
                <Table.Td>
                  <Box pl={depth * 22}>
                    <Group gap="xs">
                      <Text fw={500}>{row.name}</Text>
                      {row.is_top && <Mark icon="queues" color="gray" label={t('top')} size="sm" />}
                    </Group>
                  </Box>
                </Table.Td>
                <Table.Td>
                  {row.pools.map((part) => (
                    <div key={part.pool.id}>{part.pool.name}</div>
                  ))}
                </Table.Td>
                <Table.Td>
                  {row.pools.map((part) => (
                    <div key={part.pool.id}>
                      {format.milli(part.used.gpu_millis)} / {part.effective_ceiling.gpu_millis === null ? t('unlimited') : format.milli(part.effective_ceiling.gpu_millis)} {c('gpus')}
                    </div>
                  ))}
                </Table.Td>
                <Table.Td>
                  <Group gap="xs" wrap="nowrap">
                    {runs && (
                      <Dialog label={t('rename')} title={t('renameNamed', { name: row.name })} aria-label={t('renameNamed', { name: row.name })} variant="subtle" buttonSize="compact-sm">
                        {(close) => <RenameForm queue={row} close={close} />}
                      </Dialog>
                    )}
                    {runs && !row.is_top && (
                      <Confirm
                        label={c('delete')}
                        aria-label={t('deleteQueue', { name: row.name })}
                        title={t('deleteQueueTitle', { name: row.name })}
                        size="compact-sm"
                        variant="subtle"
                        color="red"
                        act={async () => {
                          await api.DELETE('/api/v1/queues/{queue_id}', { params: { path: { queue_id: row.id } } });
                          await queries.invalidateQueries({ queryKey: ['queues'] });
                        }}
                      >
                        {t('deleteQueueHint')}
                      </Confirm>
                    )}
                    <Anchor component={Link} to={`/quotas?queue=${row.id}`} size="sm" aria-label={`${t('limits')}: ${row.name}`}>
                      {t('limits')}
                    </Anchor>
                  </Group>
                </Table.Td>
              </Table.Tr>
            ))}
          </SmallTable>
        )}
      </PagedView>
    </Stack>
  );
}

function QueueForm({ tenant, queues, close }: { tenant: string; queues: readonly Queue[]; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [name, setName] = useState('');
  const [parent, setParent] = useState(queues.find((queue) => queue.is_top)?.id ?? null);
  const submit = async () => {
    await api.POST('/api/v1/queues', { body: { name: name.trim(), tenant, parent } });
    await queries.invalidateQueries({ queryKey: ['queues'] });
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={c('create')}>
      {(at) => (
        <>
          <TextInput label={c('name')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required data-autofocus />
          <Select label={t('parentQueue')} data={queues.map((queue) => ({ value: queue.id, label: queue.path }))} value={parent} onChange={setParent} allowDeselect={false} searchable error={at('/parent')} />
        </>
      )}
    </Form>
  );
}

function RenameForm({ queue, close }: { queue: Queue; close: () => void }) {
  const c = useText(common);
  const [name, setName] = useState(queue.name);
  const submit = async () => {
    await api.PATCH('/api/v1/queues/{queue_id}', { params: { path: { queue_id: queue.id }, header: { 'If-Match': `"${queue.version}"` } }, body: { name: name.trim() } });
    await queries.invalidateQueries({ queryKey: ['queues'] });
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={c('save')}>
      {(at) => <TextInput label={c('name')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required data-autofocus />}
    </Form>
  );
}
