/** Who belongs to the tenant, with which role, and who is invited. */

import { Autocomplete, Group, Select, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { ROLES, type Role } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify, notifyProblem } from '@/ui/notify';
import { PagedView } from '@/ui/PagedView';
import { RoleMark } from '@/ui/RoleMark';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { LeavingForm } from './Leaving';
import { Once } from './Once';
import type { Part } from './Tenant';
import { words } from './text';

type Member = Schemas['MemberOut'];
type Invitation = Schemas['InvitationOut'];
const PAGE = 200;

/** A service account that was deleted stays in the books, disabled; people who are disabled may come back. */
const isThere = (member: Member) => member.user.is_active || member.user.kind === 'person';

export default function Members({ tenant, runs }: Part) {
  const t = useText(words);
  const c = useText(common);
  const key = ['tenant', tenant.slug, 'members'] as const;
  const list = usePaged<Member>(key, (cursor) => take(api.GET('/api/v1/tenants/{tenant}/members', { params: { path: { tenant: tenant.slug }, query: { limit: PAGE, cursor } } })));
  const renew = () => queries.invalidateQueries({ queryKey: key });
  return (
    <Stack>
      <Group justify="flex-end" gap="xs">
        <CopyAs
          ways={() => ({
            cli: `berth members list --tenant ${quote(tenant.slug)}`,
            curl: curl('GET', `/tenants/${tenant.slug}/members`),
            python: `from berth import Client\n\nwith Client() as client:\n    for member in client.request("GET", "/tenants/${tenant.slug}/members")["items"]:\n        print(member["user"]["name"], member["role"])`,
          })}
        />
        {runs && (
          <Dialog label={t('addMember')} title={t('addMemberTitle')} leftSection={<Icon name="submit" size={16} />}>
            {(close) => <AddForm tenant={tenant.slug} close={close} />}
          </Dialog>
        )}
      </Group>
      <PagedView
        list={list}
        empty={
          <Empty icon="users" title={t('noMembers')} command={runs ? `berth members add NAME --role member --tenant ${tenant.slug}` : undefined}>
            {t('noMembersHint')}
          </Empty>
        }
      >
        {(rows) => (
          <SmallTable label={t('members')} head={[c('name'), t('mail'), t('role'), t('since'), c('actions')]}>
            {rows.filter(isThere).map((member) => (
              <Table.Tr key={member.user.id}>
                <Table.Td>
                  <Group gap="xs">
                    <Text fw={500}>{member.user.name}</Text>
                    {member.user.kind === 'service' && <Mark icon="key" color="gray" label={t('service')} size="sm" />}
                    {!member.user.is_active && <Mark icon="stop" color="red" label={t('disabled')} size="sm" />}
                  </Group>
                </Table.Td>
                <Table.Td>{member.user.email ?? '–'}</Table.Td>
                <Table.Td>{runs ? <RoleChoice tenant={tenant.slug} member={member} /> : <RoleMark role={member.role} />}</Table.Td>
                <Table.Td>
                  <When at={member.created_at} />
                </Table.Td>
                <Table.Td>
                  {runs && (
                    <Dialog
                      label={t('remove')}
                      aria-label={t('removeNamed', { name: member.user.name })}
                      title={t('removeTitle', { name: member.user.name, tenant: tenant.name })}
                      buttonSize="compact-sm"
                      variant="subtle"
                      color="red"
                    >
                      {(close) => (
                        <LeavingForm
                          hint={t('removeHint')}
                          label={t('remove')}
                          queryKey={['left', tenant.slug, member.user.id]}
                          read={() => take(api.GET('/api/v1/tenants/{tenant}/members/{member}/left', { params: { path: { tenant: tenant.slug, member: member.user.id } } }))}
                          act={async (settlement) => {
                            await api.DELETE('/api/v1/tenants/{tenant}/members/{user_id}', { params: { path: { tenant: tenant.slug, user_id: member.user.id }, query: settlement } });
                            await renew();
                          }}
                          close={close}
                        />
                      )}
                    </Dialog>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </SmallTable>
        )}
      </PagedView>
      {runs && <Invitations tenant={tenant.id} />}
    </Stack>
  );
}

function RoleChoice({ tenant, member }: { tenant: string; member: Member }) {
  const t = useText(words);
  const c = useText(common);
  const [isBusy, setBusy] = useState(false);
  const choose = async (role: Role) => {
    setBusy(true);
    try {
      await api.PATCH('/api/v1/tenants/{tenant}/members/{user_id}', {
        params: { path: { tenant, user_id: member.user.id }, header: { 'If-Match': `"${member.version}"` } },
        body: { role },
      });
      notify(t('roleSet', { name: member.user.name, role: c(role) }));
    } catch (error) {
      notifyProblem(error);
    } finally {
      await queries.invalidateQueries({ queryKey: ['tenant', tenant, 'members'] });
      setBusy(false);
    }
  };
  return (
    <Select
      size="xs"
      w={150}
      aria-label={t('roleOf', { name: member.user.name })}
      data={ROLES.map((role) => ({ value: role, label: c(role) }))}
      value={member.role}
      onChange={(value) => value && value !== member.role && void choose(value as Role)}
      allowDeselect={false}
      disabled={isBusy}
    />
  );
}

function AddForm({ tenant, close }: { tenant: string; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [whom, setWhom] = useState('');
  const [role, setRole] = useState<Role>('member');
  const [made, setMade] = useState<Schemas['NewInvitationOut'] | null>(null);
  const known = useQuery({ queryKey: ['users', 'known'], queryFn: () => take(api.GET('/api/v1/users', { params: { query: { limit: 500 } } })) });
  const isMail = whom.includes('@');
  const submit = async () => {
    if (isMail) {
      setMade(await take(api.POST('/api/v1/invitations', { body: { email: whom.trim(), role, tenant } })));
      await queries.invalidateQueries({ queryKey: ['invitations'] });
      return;
    }
    await api.POST('/api/v1/tenants/{tenant}/members', { params: { path: { tenant } }, body: { user: whom.trim(), role } });
    await queries.invalidateQueries({ queryKey: ['tenant', tenant, 'members'] });
    close();
  };
  if (made) {
    return (
      <Once
        title={t('inviteMade', { email: made.email })}
        until={made.expires_at}
        parts={[
          { label: t('inviteLink'), text: `${location.origin}/invitation#${encodeURIComponent(made.token)}` },
          { label: t('inviteCommand'), text: made.command },
          { label: t('inviteCode'), text: made.token },
        ]}
        close={close}
      />
    );
  }
  return (
    <Form submit={submit} onCancel={close} label={isMail ? t('invite') : t('add')}>
      {(at) => (
        <>
          <Autocomplete label={t('whom')} description={t('whomHint')} data={(known.data?.items ?? []).filter((user) => user.kind === 'person').map((user) => user.name)} limit={8} value={whom} onChange={setWhom} error={at(isMail ? '/email' : '/user')} required data-autofocus />
          <Select label={t('role')} data={ROLES.map((name) => ({ value: name, label: `${c(name)}: ${t(`${name}Means`)}` }))} value={role} onChange={(value) => value && setRole(value as Role)} allowDeselect={false} error={at('/role')} />
        </>
      )}
    </Form>
  );
}

function Invitations({ tenant }: { tenant: string }) {
  const t = useText(words);
  const c = useText(common);
  const list = usePaged<Invitation>(['invitations'], (cursor) => take(api.GET('/api/v1/invitations', { params: { query: { limit: 500, cursor } } })));
  return (
    <Stack gap="xs" mt="md">
      <Title order={2} size="h4">
        {t('invitations')}
      </Title>
      <PagedView list={list} empty={<Text c="dimmed">{t('noInvitations')}</Text>}>
        {(all) => {
          const rows = all.filter((row) => row.tenant.id === tenant);
          if (rows.length === 0) return <Text c="dimmed">{t('noInvitations')}</Text>;
          return (
            <SmallTable label={t('invitations')} head={[t('mail'), t('role'), c('state'), t('invitedBy'), t('invited'), t('expires'), c('actions')]}>
              {rows.map((row) => (
                <Table.Tr key={row.id}>
                  <Table.Td>{row.email}</Table.Td>
                  <Table.Td>
                    <RoleMark role={row.role} />
                  </Table.Td>
                  <Table.Td>
                    <InvitationState state={row.state} />
                  </Table.Td>
                  <Table.Td>{row.invited_by?.name ?? '–'}</Table.Td>
                  <Table.Td>
                    <When at={row.created_at} />
                  </Table.Td>
                  <Table.Td>{row.state === 'open' ? <When at={row.expires_at} /> : '–'}</Table.Td>
                  <Table.Td>
                    {row.state === 'open' && (
                      <Confirm
                        label={t('withdraw')}
                        aria-label={t('withdrawNamed', { name: row.email })}
                        title={t('withdrawNamed', { name: row.email })}
                        size="compact-sm"
                        variant="subtle"
                        color="red"
                        act={async () => {
                          await api.DELETE('/api/v1/invitations/{invitation_id}', { params: { path: { invitation_id: row.id } } });
                          await queries.invalidateQueries({ queryKey: ['invitations'] });
                        }}
                      >
                        {t('withdrawHint')}
                      </Confirm>
                    )}
                  </Table.Td>
                </Table.Tr>
              ))}
            </SmallTable>
          );
        }}
      </PagedView>
    </Stack>
  );
}

function InvitationState({ state }: { state: Invitation['state'] }) {
  const t = useText(words);
  if (state === 'open') return <Mark icon="hourglass" color="yellow" label={t('open')} />;
  if (state === 'accepted') return <Mark icon="check" color="teal" label={t('accepted')} />;
  return <Mark icon={state === 'withdrawn' ? 'cross' : 'clock'} color="gray" label={t(state)} />;
}
