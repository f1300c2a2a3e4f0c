/** Service accounts and their tokens. */

import { Group, MultiSelect, Paper, Select, Stack, Table, Text, TextInput, Title } from '@mantine/core';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { ROLES, type Role } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { PagedView } from '@/ui/PagedView';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { Once } from './Once';
import type { Part } from './Tenant';
import { words } from './text';

type Account = Schemas['UserOut'];
type Token = Schemas['TokenOut'];
const SCOPES = ['all', 'read', 'jobs', 'data', 'tenant', 'account'] as const;

export default function Accounts({ tenant, owns }: Part) {
  const t = useText(words);
  const key = ['tenant', tenant.slug, 'accounts'] as const;
  const list = usePaged<Account>(key, (cursor) => take(api.GET('/api/v1/tenants/{tenant}/service-accounts', { params: { path: { tenant: tenant.slug }, query: { limit: 200, cursor } } })));
  const tokens = usePaged<Token>(['tokens', 'all'], (cursor) => take(api.GET('/api/v1/tokens', { params: { query: { limit: 500, cursor } } })), owns);
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed" maw={700}>
          {t('accountsHint')} {!owns && t('accountsForManagers')}
        </Text>
        {owns && (
          <Dialog label={t('newAccount')} title={t('newAccount')} leftSection={<Icon name="submit" size={16} />}>
            {(close) => <NewAccount tenant={tenant.slug} close={close} />}
          </Dialog>
        )}
      </Group>
      <PagedView list={list} empty={<Empty icon="key" title={t('noAccounts')}>{t('noAccountsHint')}</Empty>}>
        {(rows) => rows.map((account) => <One key={account.id} tenant={tenant.slug} account={account} owns={owns} tokens={(tokens.rows ?? []).filter((token) => token.user.id === account.id)} />)}
      </PagedView>
    </Stack>
  );
}

function One({ tenant, account, owns, tokens }: { tenant: string; account: Account; owns: boolean; tokens: readonly Token[] }) {
  const t = useText(words);
  const c = useText(common);
  return (
    <Paper withBorder p="md">
      <Stack gap="xs">
        <Group justify="space-between">
          <Group gap="xs">
            <Title order={2} size="h4">
              {account.name}
            </Title>
            {!account.is_active && <Mark icon="stop" color="red" label={t('disabled')} />}
            <Text size="sm" c="dimmed">
              <When at={account.created_at} />
            </Text>
          </Group>
          {owns && (
            <Group gap="xs">
              <Dialog label={t('newToken')} title={t('newTokenFor', { name: account.name })} aria-label={t('newTokenFor', { name: account.name })} variant="default" buttonSize="xs">
                {(close) => <NewToken account={account} close={close} />}
              </Dialog>
              <Confirm
                label={c('delete')}
                aria-label={t('deleteNamed', { name: account.name })}
                title={t('deleteAccountTitle', { name: account.name })}
                size="xs"
                variant="light"
                color="red"
                act={async () => {
                  await api.DELETE('/api/v1/tenants/{tenant}/service-accounts/{user_id}', { params: { path: { tenant, user_id: account.id } } });
                  await queries.invalidateQueries({ queryKey: ['tenant', tenant] });
                }}
              >
                {t('deleteAccountHint')}
              </Confirm>
            </Group>
          )}
        </Group>
        {owns && tokens.length === 0 && <Text size="sm">{t('noTokens')}</Text>}
        {tokens.length > 0 && (
          <SmallTable label={t('tokens')} head={[c('name'), t('scopes'), t('lastUsed'), t('expires'), c('actions')]}>
            {tokens.map((token) => (
              <Table.Tr key={token.id}>
                <Table.Td>
                  {token.name}{' '}
                  <Text span size="xs" c="dimmed" ff="monospace">
                    {token.prefix}…
                  </Text>
                </Table.Td>
                <Table.Td>{token.scopes.map((scope) => t(scope)).join(', ')}</Table.Td>
                <Table.Td>{token.last_used_at ? <When at={token.last_used_at} /> : t('never')}</Table.Td>
                <Table.Td>{token.revoked_at ? <Mark icon="cross" color="gray" label={t('revoked')} /> : <When at={token.expires_at} />}</Table.Td>
                <Table.Td>
                  {!token.revoked_at && (
                    <Confirm
                      label={t('revoke')}
                      aria-label={t('revokeNamed', { name: token.name })}
                      title={t('revokeNamed', { name: token.name })}
                      size="compact-sm"
                      variant="subtle"
                      color="red"
                      act={async () => {
                        await api.DELETE('/api/v1/tokens/{token_id}', { params: { path: { token_id: token.id } } });
                        await queries.invalidateQueries({ queryKey: ['tokens'] });
                      }}
                    >
                      {t('revokeHint')}
                    </Confirm>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </SmallTable>
        )}
      </Stack>
    </Paper>
  );
}

function NewAccount({ tenant, close }: { tenant: string; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('member');
  const submit = async () => {
    await api.POST('/api/v1/tenants/{tenant}/service-accounts', { params: { path: { tenant } }, body: { name: name.trim(), role } });
    await queries.invalidateQueries({ queryKey: ['tenant', tenant] });
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={c('create')}>
      {(at) => (
        <>
          <TextInput label={c('name')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required data-autofocus />
          <Select label={t('role')} data={ROLES.map((entry) => ({ value: entry, label: `${c(entry)}: ${t(`${entry}Means`)}` }))} value={role} onChange={(value) => value && setRole(value as Role)} allowDeselect={false} error={at('/role')} />
        </>
      )}
    </Form>
  );
}

function NewToken({ account, close }: { account: Account; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<string[]>([]);
  const [until, setUntil] = useState<TypedMoment>('');
  const [made, setMade] = useState<Schemas['NewTokenOut'] | null>(null);
  const submit = async () => {
    setMade(await take(api.POST('/api/v1/tokens', { body: { name: name.trim(), service_account: account.id, ...(scopes.length ? { scopes } : {}), ...(until ? { expires_at: until } : {}) } })));
    await queries.invalidateQueries({ queryKey: ['tokens'] });
  };
  if (made) return <Once title={t('tokenMade', { name: made.name })} parts={[{ label: 'BERTH_TOKEN', text: made.token }]} close={close} />;
  return (
    <Form submit={submit} onCancel={close} label={c('create')}>
      {(at) => (
        <>
          <TextInput label={c('name')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required data-autofocus />
          <MultiSelect label={t('scopes')} description={t('scopesHint')} data={SCOPES.map((scope) => ({ value: scope, label: t(scope) }))} value={scopes} onChange={setScopes} error={at('/scopes')} />
          <MomentInput label={`${t('expiresOn')} (${format.zoneName})`} description={t('expiresHint')} value={until} onChange={setUntil} error={at('/expires_at')} />
        </>
      )}
    </Form>
  );
}
