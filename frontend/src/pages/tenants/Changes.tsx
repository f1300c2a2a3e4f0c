/** The last things that were done in the tenant. */

import { Anchor, Group, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { useText } from '@/text/language';
import { Answer, Empty } from '@/ui/Feedback';
import { SmallTable } from '@/ui/SmallTable';
import { When } from '@/ui/Times';

import type { Part } from './Tenant';
import { words } from './text';

export default function Changes({ tenant, runs }: Part) {
  const t = useText(words);
  const query = useQuery({ queryKey: ['audit', 'of', tenant.slug], enabled: runs, queryFn: () => take(api.GET('/api/v1/audit', { params: { query: { tenant: tenant.slug, limit: 50 } } })) });
  if (!runs) return <Empty icon="audit" title={t('changesForManagers')} />;
  return (
    <Answer query={query}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty icon="audit" title={t('noChanges')} command={`berth audit --tenant ${tenant.slug}`} />
        ) : (
          <Stack>
            <Group justify="flex-end">
              <Anchor component={Link} to={`/audit?tenant=${tenant.slug}`}>
                {t('allChanges')}
              </Anchor>
            </Group>
            <SmallTable label={t('changes')} head={[t('when'), t('who'), t('what'), t('whatOn')]}>
              {page.items.map((row) => (
                <Table.Tr key={row.id}>
                  <Table.Td>
                    <When at={row.at} />
                  </Table.Td>
                  <Table.Td>{row.actor.name}</Table.Td>
                  <Table.Td ff="monospace">
                    {row.verb}
                    {row.count > 1 && ` × ${row.count}`}
                  </Table.Td>
                  <Table.Td>
                    <Text span size="sm" c="dimmed">
                      {row.target.kind}
                    </Text>{' '}
                    <Anchor component={Link} to={`/audit?kind=${encodeURIComponent(row.target.kind)}&target=${encodeURIComponent(row.target.id)}`} size="sm">
                      {row.target.name || row.target.id}
                    </Anchor>
                  </Table.Td>
                </Table.Tr>
              ))}
            </SmallTable>
          </Stack>
        )
      }
    </Answer>
  );
}
