/** Browsers that are signed in as this person. */

import { Group, Stack, Table, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';

import { api, take } from '@/api/client';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Answer } from '@/ui/Feedback';
import { notify } from '@/ui/notify';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { words } from './text';

const KEY = ['sessions'] as const;

export default function Sessions() {
  const t = useText(words);
  const cache = useQueryClient();
  const sessions = useQuery({ queryKey: KEY, queryFn: () => take(api.GET('/api/v1/sessions', { params: { query: { limit: 100 } } })) });
  const again = () => cache.invalidateQueries({ queryKey: KEY });
  const endOthers = async () => {
    const { ended } = await take(api.POST('/api/v1/sessions:end-others'));
    await again();
    notify(t('ended', { count: ended }));
  };
  const end = (session_id: string) => async () => {
    await take(api.DELETE('/api/v1/sessions/{session_id}', { params: { path: { session_id } } }));
    await again();
  };
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed" size="sm">
          {t('sessionsText')}
        </Text>
        {(sessions.data?.items.length ?? 0) > 1 && (
          <Confirm label={t('endOthers')} title={t('endOthers')} color="red" variant="light" act={endOthers}>
            {t('endOthersAsk')}
          </Confirm>
        )}
      </Group>
      <Answer query={sessions}>
        {(page) => (
          <SmallTable label={t('sessions')} head={[t('device'), t('address'), t('signedIn'), t('lastUsed'), '']} minWidth={560}>
            {page.items.map((session) => (
              <Table.Tr key={session.id}>
                <Table.Td>
                  <Group gap="xs">
                    {session.device} {session.is_current && <Mark icon="check" color="teal" label={t('here')} size="sm" />}
                  </Group>
                </Table.Td>
                <Table.Td>{session.address}</Table.Td>
                <Table.Td>
                  <When at={session.created_at} />
                </Table.Td>
                <Table.Td>
                  <When at={session.last_used_at} />
                </Table.Td>
                <Table.Td ta="right">
                  {!session.is_current && (
                    <Confirm label={t('end')} title={t('endNamed', { device: session.device })} size="xs" variant="default" act={end(session.id)}>
                      {session.address}
                    </Confirm>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </SmallTable>
        )}
      </Answer>
    </Stack>
  );
}
