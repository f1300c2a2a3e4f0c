/** The closed months of a tenant, and this month so far. */

import { Anchor, Select, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useSearchParams } from 'react-router';

import { api, take } from '@/api/client';
import { useSession } from '@/api/session';
import { useText } from '@/text/language';
import { Answer } from '@/ui/Feedback';
import { When } from '@/ui/Times';

import { words } from './text';

export default function Statements() {
  const t = useText(words);
  const session = useSession();
  const [search, setSearch] = useSearchParams();
  const mine = session.who.tenants.filter((tenant) => session.isOperator || session.may('manager', tenant.slug));
  const asked = search.get('tenant');
  const tenant = mine.find((one) => one.slug === asked) ?? mine[0];
  const months = useQuery({
    queryKey: ['usage', 'statements', tenant?.slug],
    enabled: tenant !== undefined,
    queryFn: ({ signal }) => take(api.GET('/api/v1/tenants/{tenant}/statements', { params: { path: { tenant: tenant?.slug ?? '' } }, signal })),
  });
  if (!tenant) return <Text c="dimmed">{t('noTenant')}</Text>;
  const current = new Date().toISOString().slice(0, 7);
  return (
    <Stack maw={760}>
      <Text size="sm" c="dimmed">
        {t('statementsHint')}
      </Text>
      {mine.length > 1 && <Select label={t('chooseTenant')} w={240} allowDeselect={false} searchable value={tenant.slug} onChange={(value) => setSearch({ tab: 'statements', tenant: value ?? '' }, { replace: true })} data={mine.map((one) => ({ value: one.slug, label: one.name }))} />}
      <Anchor component={Link} to={`/usage/statements/${tenant.slug}/${current}`}>
        {t('thisMonth')}: {current}
      </Anchor>
      <Answer query={months} lines={3}>
        {(answer) =>
          answer.items.length === 0 ? (
            <Text size="sm">{t('statementsNone')}</Text>
          ) : (
            <Table>
              <Table.Tbody>
                {answer.items.map((statement) => (
                  <Table.Tr key={statement.month}>
                    <Table.Td>
                      <Anchor component={Link} to={`/usage/statements/${tenant.slug}/${statement.month}`}>
                        {statement.month}
                      </Anchor>
                    </Table.Td>
                    <Table.Td>
                      {t('closedOn')} <When at={statement.closed_at} size="sm" />
                    </Table.Td>
                    <Table.Td>{statement.currency}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          )
        }
      </Answer>
    </Stack>
  );
}
