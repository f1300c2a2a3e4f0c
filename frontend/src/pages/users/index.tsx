/** Everybody with an account, for operators. */

import { Group, Select, Stack, Switch, Text, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { TOKENS, TokenList, type Token } from '@/pages/account/TokenList';
import { LeavingForm } from '@/pages/tenants/Leaving';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';
import { Rows, type Column } from '@/ui/Rows';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { Import } from './Import';
import { words } from './text';

type User = Schemas['UserOut'];
const PAGE = 500;
const KINDS = ['person', 'service'] as const;
const STATES = ['active', 'disabled', 'operator'] as const;

const renew = () => queries.invalidateQueries({ queryKey: ['users'] });
const change = (user: User, body: Schemas['PatchedUserChangeRequest']) => api.PATCH('/api/v1/users/{user_id}', { params: { path: { user_id: user.id }, header: { 'If-Match': `"${user.version}"` } }, body });

export default function Users() {
  const t = useText(words);
  const session = useSession();
  if (!session.isOperator) return <Page title={t('title')}><Empty icon="users" title={t('forbidden')} /></Page>;
  return <List />;
}

function List() {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const [search, put] = useAddress();
  const [query, kind, state] = ['q', 'kind', 'state'].map((name) => search.get(name) ?? '') as [string, string, string];
  const list = usePaged<User>(['users', 'all'], (cursor) => take(api.GET('/api/v1/users', { params: { query: { limit: PAGE, cursor } } })));
  const isFiltered = Boolean(query || kind || state);
  const { hasMore, more } = list;
  const known = list.rows?.length ?? 0;
  useEffect(() => {
    if (isFiltered && hasMore) more(); // The list has no filters of its own: a search looks through all of it.
  }, [isFiltered, hasMore, more, known]);
  return (
    <Page
      title={t('title')}
      subtitle={`${t('subtitle')} ${t('tenants')}`}
      actions={
        <>
          <CopyAs
            ways={{
              cli: 'berth users list',
              curl: curl('GET', `/users?limit=${PAGE}`),
              python: 'from berth import Client\n\nwith Client() as client:\n    for user in client.request("GET", "/users")["items"]:\n        print(user["name"], user["email"])',
            }}
          />
          <Dialog label={t('import')} title={t('importTitle')} size="lg" variant="default" leftSection={<Icon name="down" size={16} />}>
            {(close) => <Import close={close} />}
          </Dialog>
          <Dialog label={t('create')} title={t('create')} leftSection={<Icon name="submit" size={16} />}>
            {(close) => <CreateForm close={close} />}
          </Dialog>
        </>
      }
    >
      <Group>
        <TextInput type="search" aria-label={c('search')} placeholder={c('search')} leftSection={<Icon name="search" size={16} />} value={query} onChange={(event) => put({ q: event.currentTarget.value })} />
        <Select aria-label={t('kind')} placeholder={t('anyKind')} clearable w={170} data={KINDS.map((value) => ({ value, label: t(value) }))} value={kind || null} onChange={(value) => put({ kind: value })} />
        <Select aria-label={c('state')} placeholder={t('anyState')} clearable w={170} data={STATES.map((value) => ({ value, label: t(value) }))} value={state || null} onChange={(value) => put({ state: value })} />
      </Group>
      <PagedView list={list} isVirtual empty={<Empty icon="users" title={t('empty')} command="berth users import people.csv" />}>
        {(all) => {
          const lower = query.toLocaleLowerCase();
          const rows = all.filter(
            (user) =>
              (!lower || `${user.name}\n${user.email ?? ''}`.toLocaleLowerCase().includes(lower)) &&
              (!kind || user.kind === kind) &&
              (!state || (state === 'operator' ? user.is_operator : user.is_active === (state === 'active'))),
          );
          return (
            <Stack gap="xs">
              <Text size="sm" c="dimmed" aria-live="polite">
                {isFiltered && hasMore ? t('readingOn', { count: format.number(all.length) }) : rows.length === 0 ? t('noMatch') : t('shown', { count: rows.length })}
                {!isFiltered && hasMore && ' +'}
              </Text>
              {rows.length > 0 && <UserRows rows={rows} onEnd={isFiltered ? undefined : more} />}
            </Stack>
          );
        }}
      </PagedView>
    </Page>
  );
}

function UserRows({ rows, onEnd }: { rows: readonly User[]; onEnd?: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const columns: Column<User>[] = [
    { key: 'name', header: c('name'), width: 'minmax(9rem, 1.5fr)', cell: (user) => <b>{user.name}</b> },
    { key: 'mail', header: t('mail'), width: 'minmax(10rem, 2fr)', isMinor: true, cell: (user) => (user.email ? `${user.email}${user.email_is_confirmed ? '' : ` (${t('unconfirmed')})`}` : '–') },
    {
      key: 'state',
      header: c('state'),
      width: 'minmax(11rem, 1.3fr)',
      cell: (user) => (
        <Group gap={4} wrap="nowrap">
          {user.is_active ? <Mark icon="check" color="teal" label={t('active')} size="sm" /> : <Mark icon="stop" color="red" label={t('disabled')} size="sm" />}
          {user.is_operator && <Mark icon="star" color="violet" label={t('operator')} size="sm" />}
          {user.kind === 'service' && <Mark icon="key" color="gray" label={t('service')} size="sm" />}
        </Group>
      ),
    },
    { key: 'since', header: t('since'), width: '8rem', isMinor: true, cell: (user) => <When at={user.created_at} /> },
    { key: 'actions', header: c('actions'), width: '15rem', cell: (user) => <Actions user={user} /> },
  ];
  return <Rows label={t('title')} rows={rows} columns={columns} rowKey={(user) => user.id} onEnd={onEnd} />;
}

function Actions({ user }: { user: User }) {
  const t = useText(words);
  const session = useSession();
  const isSelf = session.who.user.id === user.id;
  return (
    <Group gap={4} wrap="nowrap">
      <Dialog label={t('edit')} title={t('editNamed', { name: user.name })} aria-label={t('editNamed', { name: user.name })} variant="subtle" buttonSize="compact-sm">
        {(close) => <EditForm user={user} isSelf={isSelf} close={close} />}
      </Dialog>
      <Dialog label={t('tokens')} title={t('tokensOf', { name: user.name })} aria-label={t('tokensOf', { name: user.name })} variant="subtle" buttonSize="compact-sm" size="xl">
        {() => <TokensOf user={user} />}
      </Dialog>
      {!isSelf && user.is_active && (
        <Dialog label={t('disable')} title={t('disableTitle', { name: user.name })} aria-label={t('disableNamed', { name: user.name })} variant="subtle" buttonSize="compact-sm" color="red">
          {(close) => (
            <LeavingForm
              hint={t('disableHint')}
              label={t('disable')}
              queryKey={['left', user.id]}
              read={() => take(api.GET('/api/v1/users/{user_id}/left', { params: { path: { user_id: user.id } } }))}
              act={async (settlement) => {
                await change(user, { is_active: false, ...settlement });
                await renew();
              }}
              close={close}
            />
          )}
        </Dialog>
      )}
      {!isSelf && !user.is_active && (
        <Confirm
          label={t('enable')}
          aria-label={t('enableNamed', { name: user.name })}
          title={t('enableNamed', { name: user.name })}
          size="compact-sm"
          variant="subtle"
          color="teal"
          act={async () => {
            await change(user, { is_active: true });
            await renew();
          }}
        >
          {t('enableHint')}
        </Confirm>
      )}
    </Group>
  );
}

/** One that leaked is revoked alone; whoever it belongs to works on. */
function TokensOf({ user }: { user: User }) {
  const t = useText(words);
  const tokens = usePaged<Token>([...TOKENS, user.id], (cursor) => take(api.GET('/api/v1/tokens', { params: { query: { user: user.id, cursor } } })));
  const none = <Text size="sm">{t('noTokens')}</Text>;
  return (
    <Stack>
      <PagedView list={tokens} empty={none}>
        {(rows) => <TokenList tokens={rows} empty={none} />}
      </PagedView>
    </Stack>
  );
}

function CreateForm({ close }: { close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [isOperator, setOperator] = useState(false);
  const submit = async () => {
    await api.POST('/api/v1/users', { body: { name: name.trim(), email: email.trim(), is_operator: isOperator } });
    await renew();
    notify(t('saved', { name: name.trim() }));
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={c('create')}>
      {(at) => (
        <>
          <Text size="sm" c="dimmed">
            {t('createHint')}
          </Text>
          <TextInput label={c('name')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required autoComplete="off" data-autofocus />
          <TextInput type="email" label={t('mail')} value={email} onChange={(event) => setEmail(event.currentTarget.value)} error={at('/email')} autoComplete="off" />
          <Switch label={t('makeOperator')} description={t('operatorHint')} checked={isOperator} onChange={(event) => setOperator(event.currentTarget.checked)} error={at('/is_operator')} />
        </>
      )}
    </Form>
  );
}

function EditForm({ user, isSelf, close }: { user: User; isSelf: boolean; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [email, setEmail] = useState(user.email ?? '');
  const [isConfirmed, setConfirmed] = useState(user.email_is_confirmed ?? false);
  const [isOperator, setOperator] = useState(user.is_operator);
  const [isActive, setActive] = useState(user.is_active);
  const isPerson = user.kind === 'person';
  const isNewEmail = email !== (user.email ?? '');
  const confirms = !isNewEmail && isConfirmed && !user.email_is_confirmed; // What an operator writes is confirmed by that.
  const submit = async () => {
    await change(user, {
      ...(isNewEmail || confirms ? { email: email.trim() } : {}),
      ...(isOperator !== user.is_operator ? { is_operator: isOperator } : {}),
      ...(isActive !== user.is_active ? { is_active: isActive } : {}),
    });
    await renew();
    notify(t('saved', { name: user.name }));
    close();
  };
  return (
    <Stack>
      <Form submit={submit} onCancel={close} label={c('save')} isReady={isNewEmail || confirms || isOperator !== user.is_operator || isActive !== user.is_active}>
        {(at) => (
          <>
            {isPerson && <TextInput type="email" label={t('mail')} value={email} onChange={(event) => setEmail(event.currentTarget.value)} error={at('/email')} autoComplete="off" data-autofocus />}
            {user.email && !user.email_is_confirmed && !isNewEmail && <Switch label={t('confirm')} description={t('confirmHint')} checked={isConfirmed} onChange={(event) => setConfirmed(event.currentTarget.checked)} />}
            <Switch label={t('isActive')} description={t('isActiveHint')} checked={isActive} disabled={isSelf} onChange={(event) => setActive(event.currentTarget.checked)} error={at('/is_active')} />
            {isPerson && <Switch label={t('makeOperator')} description={t('operatorHint')} checked={isOperator} disabled={isSelf} onChange={(event) => setOperator(event.currentTarget.checked)} error={at('/is_operator')} />}
            {isSelf && (
              <Text size="sm" c="dimmed">
                {t('self')}
              </Text>
            )}
          </>
        )}
      </Form>
      {isPerson && !isSelf && (
        <Confirm
          label={t('resetFactor')}
          title={t('resetFactorTitle', { name: user.name })}
          variant="light"
          color="red"
          act={async () => {
            await api.DELETE('/api/v1/users/{user_id}/totp', { params: { path: { user_id: user.id } } });
            notify(t('factorGone', { name: user.name }));
          }}
        >
          {t('resetFactorHint')}
        </Confirm>
      )}
    </Stack>
  );
}
