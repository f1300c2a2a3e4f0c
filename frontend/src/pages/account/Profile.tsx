/** Who one is here, and where one belongs. */

import { Paper, Stack, Table, Text, Title } from '@mantine/core';

import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { RoleMark } from '@/ui/RoleMark';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';

import { words } from './text';

export function Profile() {
  const t = useText(words);
  const c = useText(common);
  const { who, isOperator } = useSession();
  const names = new Map(who.tenants.map((tenant) => [tenant.slug, tenant.name]));
  return (
    <Stack maw={720}>
      <Paper withBorder p="md">
        <Table variant="vertical" layout="fixed" withRowBorders={false}>
          <Table.Tbody>
            <Table.Tr>
              <Table.Th w={140}>{c('name')}</Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                {who.user.name} {isOperator && <Mark icon="features" color="orange" label={t('operator')} size="sm" />}
              </Table.Td>
            </Table.Tr>
            <Table.Tr>
              <Table.Th>{t('email')}</Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                {who.user.email || t('noEmail')}
                {who.user.email && !who.user.email_is_confirmed && (
                  <Text size="sm" c="dimmed">
                    {t('emailUnconfirmed')}
                  </Text>
                )}
              </Table.Td>
            </Table.Tr>
          </Table.Tbody>
        </Table>
      </Paper>
      <Title order={2} size="h5">
        {t('roles')}
      </Title>
      {who.tenants.length === 0 ? (
        <Text c="dimmed">{t('noTenants')}</Text>
      ) : (
        <>
          <SmallTable label={t('roles')} head={[c('tenant'), t('role')]} minWidth={320}>
            {who.tenants.map((tenant) => (
              <Table.Tr key={tenant.id}>
                <Table.Td>
                  <bdi>{tenant.name}</bdi>{' '}
                  <Text size="xs" c="dimmed" span>
                    {tenant.slug}
                    {tenant.parent ? ` · ${t('below', { name: names.get(tenant.parent) ?? tenant.parent })}` : ''}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <RoleMark role={tenant.role} size="sm" />
                </Table.Td>
              </Table.Tr>
            ))}
          </SmallTable>
          <Text size="sm" c="dimmed">
            {t('roleHint')}
          </Text>
        </>
      )}
    </Stack>
  );
}
