/** Edits whose time is still to come, which can be cancelled, and those that were made. */

import { Group, Stack, Table, Text, Title } from '@mantine/core';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { amountText, type Resource } from '@/text/amounts';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Empty } from '@/ui/Feedback';
import { PagedView } from '@/ui/PagedView';
import { Said } from '@/ui/Said';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { words } from './text';

type Edit = Schemas['EditOut'];
const CHANGES_SHOWN = 4;

export function Edits() {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const session = useSession();
  const list = usePaged<Edit>(['quotas', 'edits'], (cursor) => take(api.GET('/api/v1/quota/edits', { params: { query: { limit: 30, cursor } } })));
  return (
    <Stack gap="xs">
      <Title order={2} size="h4">
        {t('edits')}
      </Title>
      <PagedView list={list} empty={<Empty icon="quotas" title={t('noEdits')} command="berth queues edit QUEUE --pool POOL --ceiling gpu=8 --dry-run" />}>
        {(rows) => (
          <SmallTable label={t('edits')} head={[c('state'), t('what'), t('by'), t('when'), t('comment'), c('actions')]} minWidth={760}>
            {[...rows].sort((a, b) => Number(b.state === 'pending') - Number(a.state === 'pending')).map((edit) => (
              <Table.Tr key={edit.id ?? ''}>
                <Table.Td>
                  <EditState state={edit.state} />
                </Table.Td>
                <Table.Td>
                  <ChangeList changes={edit.changes} />
                  {edit.problems.map((found, index) => (
                    <Text key={index} size="xs" c="red">
                      <Said text={found.message} />
                    </Text>
                  ))}
                </Table.Td>
                <Table.Td>{edit.created_by?.name ?? '–'}</Table.Td>
                <Table.Td>
                  {edit.state === 'pending' ? (
                    <Stack gap={0}>
                      <When at={edit.effective_from} />
                      <Text size="xs" c="dimmed">
                        {format.time(edit.effective_from)}
                      </Text>
                    </Stack>
                  ) : (
                    <When at={edit.decided_at ?? edit.created_at} />
                  )}
                </Table.Td>
                <Table.Td maw={260}>
                  <Text size="sm" lineClamp={2}>
                    {edit.comment}
                  </Text>
                </Table.Td>
                <Table.Td>
                  {edit.state === 'pending' && (session.isOperator || (edit.tenant && session.may('manager', edit.tenant.slug))) && (
                    <Confirm
                      label={t('cancelEdit')}
                      title={t('cancelEditTitle')}
                      size="compact-sm"
                      variant="light"
                      color="red"
                      act={async () => {
                        await api.DELETE('/api/v1/quota/edits/{edit_id}', { params: { path: { edit_id: edit.id ?? '' } } });
                        await queries.invalidateQueries({ queryKey: ['quotas'] });
                      }}
                    >
                      {t('cancelEditHint')}
                    </Confirm>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </SmallTable>
        )}
      </PagedView>
    </Stack>
  );
}

function EditState({ state }: { state: Edit['state'] }) {
  const t = useText(words);
  if (state === 'pending') return <Mark icon="clock" color="yellow" label={t('pending')} />;
  if (state === 'applied') return <Mark icon="check" color="teal" label={t('appliedState')} />;
  if (state === 'refused') return <Mark icon="cross" color="red" label={t('refusedState')} />;
  return <Mark icon="stop" color="gray" label={t(state)} />;
}

/** `vision · a100 · GPUs: ceiling 8 → 4`, a line for each limit. */
export function ChangeList({ changes }: { changes: readonly { queue: { name: string } | null; pool: { name: string } | null; resource: string; values: Record<string, number | null>; before?: Record<string, number | null> | null }[] }) {
  const t = useText(words);
  const say = (resource: Resource, column: string, value: number | null | undefined) => (value === null || value === undefined ? t('noneShort') : column === 'weight' ? String(value) : amountText(resource, value));
  return (
    <Stack gap={2}>
      {changes.slice(0, CHANGES_SHOWN).map((change, index) => (
        <Group key={index} gap={6}>
          <Text size="sm" fw={500}>
            {change.queue?.name ?? '–'}
          </Text>
          <Text size="xs" c="dimmed">
            {change.pool?.name} · {t(change.resource as Resource)}
          </Text>
          <Text size="sm">
            {(Object.entries(change.values) as ['guarantee' | 'deserved' | 'ceiling' | 'weight', number | null][])
              .map(([column, value]) => `${t(column)} ${change.before ? `${say(change.resource as Resource, column, change.before[column])} → ` : ''}${say(change.resource as Resource, column, value)}`)
              .join(', ')}
          </Text>
        </Group>
      ))}
      {changes.length > CHANGES_SHOWN && <Text size="xs">{t('moreChanges', { count: changes.length - CHANGES_SHOWN })}</Text>}
    </Stack>
  );
}
