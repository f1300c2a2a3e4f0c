/** All tenants that one sees, each below the one that it is part of. */

import { Anchor, Box, Group, Select, Stack, Table, Text, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Link, useNavigate } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { SESSION_KEY, useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { CopyAs, CopyText, curl } from '@/ui/CopyAs';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';
import { RoleMark } from '@/ui/RoleMark';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { words } from './text';
import { asTree, fitting } from './tree';

type Tenant = Schemas['TenantOut'];
const PAGE = 500;

const WAYS = {
  cli: 'berth tenants list',
  get curl() {
    return curl('GET', `/tenants?limit=${PAGE}`);
  },
  python: 'from berth import Client\n\nwith Client() as client:\n    for tenant in client.request("GET", "/tenants")["items"]:\n        print(tenant["slug"], tenant["name"])',
};

export default function Tree() {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const [search, put] = useAddress();
  const query = search.get('q') ?? '';
  const list = usePaged<Tenant>(['tenants', 'all'], (cursor) => take(api.GET('/api/v1/tenants', { params: { query: { limit: PAGE, cursor } } })));
  const mayCreate = session.isOperator || session.may('manager');
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <>
          <CopyAs ways={WAYS} />
          {mayCreate && <NewTenant parents={list.rows ?? []} />}
        </>
      }
    >
      <PagedView list={list} empty={<Empty icon="tenants" title={t('empty')} command="berth users accept">{t('emptyHint')}</Empty>}>
        {(rows) => {
          const lower = query.toLocaleLowerCase();
          const shown = lower ? fitting(rows, byId, parentOf, (row) => `${row.name}\n${row.slug}\n${row.description}`.toLocaleLowerCase().includes(lower)) : rows;
          return (
            <Stack>
              <TextInput
                type="search"
                maw={360}
                aria-label={c('search')}
                placeholder={c('search')}
                leftSection={<Icon name="search" size={16} />}
                value={query}
                onChange={(event) => put({ q: event.currentTarget.value })}
              />
              {shown.length === 0 ? <Text c="dimmed">{t('noMatch', { query })}</Text> : <TreeTable rows={shown} />}
            </Stack>
          );
        }}
      </PagedView>
    </Page>
  );
}

const byId = (row: Tenant) => row.id;
const parentOf = (row: Tenant) => row.parent?.id ?? null;

function TreeTable({ rows }: { rows: readonly Tenant[] }) {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  return (
    <SmallTable label={t('title')} head={[c('name'), t('description'), t('yourRole'), t('slug'), t('made'), c('actions')]} minWidth={720}>
      {asTree(rows, byId, parentOf, (row) => row.name).map(({ row, depth }) => (
        <Table.Tr key={row.id}>
          <Table.Td>
            <Box pl={depth * 22} style={{ overflowWrap: 'anywhere' }}>
              {depth > 0 && (
                <Text span c="dimmed" aria-hidden="true">
                  └{' '}
                </Text>
              )}
              <Anchor component={Link} to={`/tenants/${row.slug}`} fw={600}>
                {row.name}
              </Anchor>{' '}
              {row.is_disabled && <Mark icon="stop" color="red" label={t('disabled')} size="sm" />}
            </Box>
          </Table.Td>
          <Table.Td maw={320}>
            <Text size="sm" c="dimmed" lineClamp={2}>
              {row.description}
            </Text>
          </Table.Td>
          <Table.Td>
            <RoleMark role={row.role} />
          </Table.Td>
          <Table.Td>
            <Group gap={4} wrap="nowrap">
              <Text size="sm" ff="monospace">
                {row.slug}
              </Text>
              <CopyText text={row.slug} label={t('copySlug')} />
            </Group>
          </Table.Td>
          <Table.Td>
            <When at={row.created_at} size="sm" />
          </Table.Td>
          <Table.Td>{(session.isOperator || row.role === 'manager') && <NewTenant parents={rows} parent={row} />}</Table.Td>
        </Table.Tr>
      ))}
    </SmallTable>
  );
}

function NewTenant({ parents, parent }: { parents: readonly Tenant[]; parent?: Tenant }) {
  const t = useText(words);
  return (
    <Dialog
      label={parent ? t('below') : t('create')}
      title={parent ? t('createBelow', { name: parent.name }) : t('create')}
      leftSection={<Icon name="submit" size={16} />}
      {...(parent ? { variant: 'subtle', buttonSize: 'compact-sm' as const, 'aria-label': `${t('below')}: ${parent.name}` } : {})}
    >
      {(close) => <NewTenantForm parents={parents} parent={parent} close={close} />}
    </Dialog>
  );
}

function NewTenantForm({ parents, parent, close }: { parents: readonly Tenant[]; parent?: Tenant; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const navigate = useNavigate();
  const mine = parents.filter((row) => session.isOperator || row.role === 'manager');
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [above, setAbove] = useState<string | null>(parent?.slug ?? (session.isOperator ? null : (mine[0]?.slug ?? null)));
  const submit = async () => {
    const made = await take(api.POST('/api/v1/tenants', { body: { name: name.trim(), description: description.trim(), parent: above } }));
    await Promise.all([queries.invalidateQueries({ queryKey: ['tenants'] }), queries.invalidateQueries({ queryKey: SESSION_KEY })]);
    close();
    void navigate(`/tenants/${made.slug}`);
  };
  return (
    <Form submit={submit} onCancel={close} label={c('create')}>
      {(at) => (
        <>
          <TextInput label={c('name')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required data-autofocus />
          <Textarea label={t('description')} value={description} onChange={(event) => setDescription(event.currentTarget.value)} error={at('/description')} autosize minRows={2} />
          <Select
            label={t('parent')}
            description={session.isOperator ? undefined : t('parentHint')}
            placeholder={session.isOperator ? t('parentTop') : undefined}
            data={mine.map((row) => ({ value: row.slug, label: row.name }))}
            value={above}
            onChange={setAbove}
            clearable={session.isOperator}
            searchable
            error={at('/parent')}
          />
        </>
      )}
    </Form>
  );
}
