/** One entry: who, by what, and what was before and after. */

import { Anchor, Code, Group, Stack, Table, Text } from '@mantine/core';

import { usePools } from '@/api/fleet';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyText } from '@/ui/CopyAs';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { Window } from '@/ui/Window';

import { differences } from './diff';
import type { Entry } from './index';
import { words } from './text';

export function Details({ entry, tenant, close, narrow }: { entry: Entry; tenant: string | null; close: () => void; narrow: (values: { actor?: string; kind?: string; target?: string }) => void }) {
  const t = useText(words);
  const format = useFormat();
  const pools = usePools();
  const names = new Map((pools.data ?? []).map((pool) => [pool.id, pool.name]));
  const found = differences(entry.before, entry.after);
  const actor = entry.actor.id;
  return (
    <Window onClose={close} title={t('details', { seq: entry.seq ?? t('unsealed') })} size="xl">
      <Stack>
        <Group gap="xs">
          <Text fw={600} ff="monospace">
            {entry.verb}
          </Text>
          {entry.count > 1 && <Mark icon="refresh" color="gray" label={t('times', { count: entry.count })} />}
          <Text size="sm">{format.timeWithZone(entry.at)}</Text>
        </Group>
        <Table variant="vertical" aria-label={entry.verb}>
          <Table.Tbody>
            <Table.Tr>
              <Table.Th w={130}>{t('actor')}</Table.Th>
              <Table.Td>
                {entry.actor.name || t('system')}{' '}
                {actor && (
                  <Anchor component="button" type="button" size="sm" onClick={() => narrow({ actor })}>
                    {t('sameActor', { name: entry.actor.name })}
                  </Anchor>
                )}
              </Table.Td>
            </Table.Tr>
            {entry.actor.token_id && (
              <Table.Tr>
                <Table.Th>{t('byToken')}</Table.Th>
                <Table.Td>
                  <Code>{entry.actor.token_id}</Code>
                </Table.Td>
              </Table.Tr>
            )}
            <Table.Tr>
              <Table.Th>{t('object')}</Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                {entry.target.kind} <b>{entry.target.name}</b> <Code>{entry.target.id}</Code>{' '}
                <Anchor component="button" type="button" size="sm" onClick={() => narrow({ kind: entry.target.kind, target: entry.target.id })}>
                  {t('sameTarget')}
                </Anchor>
              </Table.Td>
            </Table.Tr>
            {tenant && (
              <Table.Tr>
                <Table.Th>{t('tenant')}</Table.Th>
                <Table.Td>{tenant}</Table.Td>
              </Table.Tr>
            )}
            <Table.Tr>
              <Table.Th>{t('request')}</Table.Th>
              <Table.Td>
                <Group gap={4}>
                  <Code>{entry.request_id}</Code>
                  {entry.request_id && <CopyText text={entry.request_id} />}
                </Group>
              </Table.Td>
            </Table.Tr>
            <Table.Tr>
              <Table.Th>{t('seal')}</Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{entry.hash ? <Code>{entry.hash}</Code> : t('unsealed')}</Table.Td>
            </Table.Tr>
          </Table.Tbody>
        </Table>
        {found.length === 0 ? (
          <Text c="dimmed">{t('noDiff')}</Text>
        ) : (
          <SmallTable label={`${t('before')} / ${t('after')}`} head={[t('field'), '', t('before'), t('after')]}>
            {found.map((difference) => (
              <Table.Tr key={difference.path}>
                <Table.Td ff="monospace" style={{ overflowWrap: 'anywhere' }}>
                  {difference.path
                    .split('.')
                    .map((part) => names.get(part) ?? part)
                    .join('.')}
                </Table.Td>
                <Table.Td>
                  <Mark
                    size="sm"
                    icon={difference.kind === 'added' ? 'submit' : difference.kind === 'removed' ? 'trash' : 'edit'}
                    color={difference.kind === 'added' ? 'teal' : difference.kind === 'removed' ? 'red' : 'blue'}
                    label={t(difference.kind)}
                  />
                </Table.Td>
                <Table.Td style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>{difference.before && <del>{difference.before}</del>}</Table.Td>
                <Table.Td style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>{difference.after && <ins>{difference.after}</ins>}</Table.Td>
              </Table.Tr>
            ))}
          </SmallTable>
        )}
      </Stack>
    </Window>
  );
}
