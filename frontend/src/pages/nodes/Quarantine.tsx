/** Work that a cluster has and the database does not: adopt it or stop it. */

import { Anchor, Group, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { readAll } from '@/api/fleet';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Answer } from '@/ui/Feedback';
import { notify } from '@/ui/notify';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { words } from './text';

export function Quarantine() {
  const t = useText(words);
  const w = useText(common);
  const rows = useQuery({ queryKey: ['nodes', 'quarantine'], refetchInterval: 30_000, queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/quarantine', { params: { query: page }, signal }))) });
  const act = async (attempt: string, what: 'adopt' | 'stop') => {
    const params = { path: { attempt } };
    if (what === 'adopt') await take(api.POST('/api/v1/quarantine/{attempt}/adopt', { params }));
    else await take(api.POST('/api/v1/quarantine/{attempt}/stop', { params }));
    await queries.invalidateQueries({ queryKey: ['nodes'] });
    notify(t('done'));
  };
  return (
    <section aria-labelledby="quarantine">
      <Title order={2} size="h4" id="quarantine">
        {t('quarantine')}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {t('quarantineHint')}
      </Text>
      <Answer query={rows} lines={2}>
        {(all) =>
          all.length === 0 ? (
            <Text size="sm">{t('quarantineEmpty')}</Text>
          ) : (
            <SmallTable label={t('quarantine')} head={[w('name'), w('cluster'), w('state'), t('found'), w('actions')]} minWidth={640}>
              {all.map((row) => (
                <Table.Tr key={row.attempt}>
                  <Table.Td>
                    {row.job ? (
                      <Anchor component={Link} to={`/jobs/${row.job}`} size="sm">
                        {row.name}
                      </Anchor>
                    ) : (
                      row.name
                    )}
                    {row.problem && (
                      <Text size="xs" c="dimmed">
                        {row.problem}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td>{row.cluster}</Table.Td>
                  <Table.Td>{row.decision === 'stopping' ? <Mark icon="pause" color="orange" label={t('stopping')} /> : <Mark icon={row.fits ? 'check' : 'alert'} color={row.fits ? 'teal' : 'yellow'} label={t(row.fits ? 'fits' : 'fitsNot')} />}</Table.Td>
                  <Table.Td>
                    <When at={row.first_seen_at} size="sm" />
                  </Table.Td>
                  <Table.Td>
                    <Group gap="xs" wrap="nowrap">
                      {row.fits && (
                        <Confirm size="compact-sm" variant="default" label={t('adopt')} title={t('adoptTitle', { name: row.name })} act={() => act(row.attempt, 'adopt')}>
                          {t('adoptHint')}
                        </Confirm>
                      )}
                      {row.decision !== 'stopping' && (
                        <Confirm size="compact-sm" color="red" variant="light" label={t('stop')} title={t('stopTitle', { name: row.name })} act={() => act(row.attempt, 'stop')}>
                          {t('stopHint')}
                        </Confirm>
                      )}
                    </Group>
                  </Table.Td>
                </Table.Tr>
              ))}
            </SmallTable>
          )
        }
      </Answer>
    </section>
  );
}
