/** The tenant's accounts at container registries. Passwords go in and never come out. */

import { Alert, Code, Group, Stack, Table, Text, TextInput } from '@mantine/core';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { quote } from '@/ui/CopyAs';
import { Dialog, Form, refuse } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { PagedView } from '@/ui/PagedView';
import { PasswordField } from '@/ui/PasswordField';
import { Said } from '@/ui/Said';
import { SmallTable } from '@/ui/SmallTable';
import { When } from '@/ui/Times';

import type { Part } from './Tenant';
import { words } from './text';

type Account = Schemas['RegistryAccountOut'];
type Checked = Schemas['RegistryCheckOut'];

const keyOf = (tenant: string) => ['tenant', tenant, 'registries'] as const;

export default function Registries({ tenant, owns }: Part) {
  const t = useText(words);
  const c = useText(common);
  const mayRead = tenant.role === 'manager' || tenant.role === 'member';
  const list = usePaged<Account>(keyOf(tenant.slug), (cursor) => take(api.GET('/api/v1/tenants/{tenant}/registries', { params: { path: { tenant: tenant.slug }, query: { limit: 200, cursor } } })), mayRead);
  if (!mayRead) return <Empty icon="clusters" title={t('registriesForMembers')} />;
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed" maw={700}>
          {t('registriesHint')} {!owns && t('registriesForManagers')}
        </Text>
        {owns && (
          <Dialog label={t('newRegistry')} title={t('newRegistry')} leftSection={<Icon name="submit" size={16} />}>
            {(close) => <RegistryForm tenant={tenant.slug} close={close} />}
          </Dialog>
        )}
      </Group>
      <PagedView list={list} empty={<Empty icon="clusters" title={t('noRegistries')} command={owns ? `berth registries add HOST -u NAME --tenant ${tenant.slug}` : undefined}>{t('noRegistriesHint')}</Empty>}>
        {(rows) => (
          <SmallTable label={t('registries')} head={[t('registryHost'), t('registryUser'), t('changed'), c('actions')]} minWidth={520}>
            {rows.map((account) => (
              <Table.Tr key={account.host}>
                <Table.Td ff="monospace">{account.host}</Table.Td>
                <Table.Td>{account.username}</Table.Td>
                <Table.Td>
                  <When at={account.updated_at} />
                </Table.Td>
                <Table.Td>
                  <Group gap={4} wrap="nowrap">
                    <Dialog label={t('check')} title={t('checkNamed', { name: account.host })} aria-label={t('checkNamed', { name: account.host })} variant="subtle" buttonSize="compact-sm">
                      {(close) => <CheckForm tenant={tenant.slug} host={account.host} close={close} />}
                    </Dialog>
                    {owns && (
                      <>
                        <Dialog label={t('replace')} title={t('replaceNamed', { name: account.host })} aria-label={t('replaceNamed', { name: account.host })} variant="subtle" buttonSize="compact-sm">
                          {(close) => <RegistryForm tenant={tenant.slug} known={account} close={close} />}
                        </Dialog>
                        <Confirm
                          label={c('delete')}
                          aria-label={t('deleteNamed', { name: account.host })}
                          title={t('deleteAccountTitle', { name: account.host })}
                          size="compact-sm"
                          variant="subtle"
                          color="red"
                          act={async () => {
                            await api.DELETE('/api/v1/tenants/{tenant}/registries/{host}', { params: { path: { tenant: tenant.slug, host: account.host } } });
                            await queries.invalidateQueries({ queryKey: keyOf(tenant.slug) });
                          }}
                        >
                          {t('deleteRegistryHint')}
                        </Confirm>
                      </>
                    )}
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

function RegistryForm({ tenant, known, close }: { tenant: string; known?: Account; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [host, setHost] = useState(known?.host ?? '');
  const [username, setUsername] = useState(known?.username ?? '');
  const [password, setPassword] = useState('');
  const submit = async () => {
    const plain = host.trim().replace(/^https?:\/\//, '').replace(/\/$/, ''); // As copied from an address bar.
    refuse({ '/host': /[\s/]/.test(plain) && t('registryHostOnly') });
    await api.PUT('/api/v1/tenants/{tenant}/registries/{host}', { params: { path: { tenant, host: plain || '-' } }, body: { username: username.trim(), password } });
    await queries.invalidateQueries({ queryKey: keyOf(tenant) });
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={c('save')} isReady={host.trim() !== '' && username.trim() !== '' && password !== ''}>
      {(at) => (
        <>
          <TextInput label={t('registryHost')} description={t('registryHostHint')} value={host} onChange={(event) => setHost(event.currentTarget.value)} error={at('/host')} disabled={known !== undefined} autoComplete="off" spellCheck={false} required />
          <TextInput label={t('registryUser')} value={username} onChange={(event) => setUsername(event.currentTarget.value)} error={at('/username')} autoComplete="off" spellCheck={false} required />
          <PasswordField label={t('registryPassword')} description={t('registryPasswordHint')} value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={at('/password')} autoComplete="new-password" required />
        </>
      )}
    </Form>
  );
}

function CheckForm({ tenant, host, close }: { tenant: string; host: string; close: () => void }) {
  const t = useText(words);
  const [image, setImage] = useState('');
  const [checked, setChecked] = useState<Checked | null>(null);
  const submit = async () => {
    setChecked(null);
    setChecked(await take(api.POST('/api/v1/tenants/{tenant}/registries/{host}/check', { params: { path: { tenant, host } }, body: { image: image.trim() || null } })));
  };
  return (
    <Stack>
      <Form submit={submit} onCancel={close} label={t('check')}>
        {(at) => <TextInput label={t('checkImage')} description={t('checkImageHint', { example: `${host}/team/train:1.2` })} value={image} onChange={(event) => setImage(event.currentTarget.value)} error={at('/image')} autoComplete="off" spellCheck={false} />}
      </Form>
      {checked && <Answered checked={checked} host={host} />}
      <Code>{`berth registries check ${quote(host)} --tenant ${tenant}`}</Code>
    </Stack>
  );
}

function Answered({ checked, host }: { checked: Checked; host: string }) {
  const t = useText(words);
  const format = useFormat();
  return (
    <Alert role="status" color={checked.ok ? 'teal' : 'red'} icon={<Icon name={checked.ok ? 'check' : 'alert'} />} title={checked.ok ? t(checked.digest ? 'checkHasImage' : 'checkTakes', { host }) : checked.title}>
      {checked.digest && (
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          <Code>{checked.digest}</Code> {checked.size_bytes !== null && t('checkSize', { size: format.bytes(checked.size_bytes) })}
        </Text>
      )}
      {checked.detail && (
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          <Said text={checked.detail} />
        </Text>
      )}
      {checked.hint && (
        <Text size="sm">
          <Said text={checked.hint} />
        </Text>
      )}
    </Alert>
  );
}
