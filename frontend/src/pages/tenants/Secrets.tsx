/** Names of the tenant's secrets. Values go in and never come out. */

import { Group, Stack, Table, Text, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { PagedView } from '@/ui/PagedView';
import { SmallTable } from '@/ui/SmallTable';
import { When } from '@/ui/Times';

import type { Part } from './Tenant';
import { words } from './text';

export default function Secrets({ tenant, owns }: Part) {
  const t = useText(words);
  const c = useText(common);
  const mayRead = tenant.role === 'manager' || tenant.role === 'member';
  const key = ['tenant', tenant.slug, 'secrets'] as const;
  const list = usePaged<Schemas['SecretOut']>(key, (cursor) => take(api.GET('/api/v1/tenants/{tenant}/secrets', { params: { path: { tenant: tenant.slug }, query: { limit: 200, cursor } } })), mayRead);
  if (!mayRead) return <Empty icon="key" title={t('secretsForMembers')} />;
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed">{t('secretsHint')}</Text>
        {owns && (
          <Dialog label={t('newSecret')} title={t('newSecret')} leftSection={<Icon name="submit" size={16} />}>
            {(close) => <SecretForm tenant={tenant.slug} close={close} />}
          </Dialog>
        )}
      </Group>
      <PagedView list={list} empty={<Empty icon="key" title={t('noSecrets')} command={owns ? `berth secrets set NAME --tenant ${tenant.slug}` : undefined}>{t('noSecretsHint')}</Empty>}>
        {(rows) => (
          <SmallTable label={t('secrets')} head={[c('name'), t('made'), t('changed'), c('actions')]} minWidth={420}>
            {rows.map((secret) => (
              <Table.Tr key={secret.name}>
                <Table.Td ff="monospace">{secret.name}</Table.Td>
                <Table.Td>
                  <When at={secret.created_at} />
                </Table.Td>
                <Table.Td>
                  <When at={secret.updated_at} />
                </Table.Td>
                <Table.Td>
                  {owns && (
                    <Group gap={4} wrap="nowrap">
                      <Dialog label={t('replace')} title={t('replaceNamed', { name: secret.name })} aria-label={t('replaceNamed', { name: secret.name })} variant="subtle" buttonSize="compact-sm">
                        {(close) => <SecretForm tenant={tenant.slug} name={secret.name} close={close} />}
                      </Dialog>
                      <Confirm
                        label={c('delete')}
                        aria-label={t('deleteNamed', { name: secret.name })}
                        title={t('deleteAccountTitle', { name: secret.name })}
                        size="compact-sm"
                        variant="subtle"
                        color="red"
                        act={async () => {
                          await api.DELETE('/api/v1/tenants/{tenant}/secrets/{name}', { params: { path: { tenant: tenant.slug, name: secret.name } } });
                          await queries.invalidateQueries({ queryKey: key });
                        }}
                      >
                        {t('deleteSecretHint')}
                      </Confirm>
                    </Group>
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

function SecretForm({ tenant, name: known, close }: { tenant: string; name?: string; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [name, setName] = useState(known ?? '');
  const [value, setValue] = useState('');
  const submit = async () => {
    await api.PUT('/api/v1/tenants/{tenant}/secrets/{name}', { params: { path: { tenant, name: name.trim() || '-' } }, body: { value } });
    await queries.invalidateQueries({ queryKey: ['tenant', tenant, 'secrets'] });
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={c('save')} isReady={name.trim() !== '' && value !== ''}>
      {(at) => (
        <>
          <TextInput label={c('name')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} disabled={known !== undefined} required />
          <Textarea label={t('value')} value={value} onChange={(event) => setValue(event.currentTarget.value)} error={at('/value')} autosize minRows={3} maxRows={12} autoComplete="off" spellCheck={false} required data-autofocus />
        </>
      )}
    </Form>
  );
}
