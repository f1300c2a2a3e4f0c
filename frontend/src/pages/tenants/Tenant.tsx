/** One tenant. The part that is looked at stands in the address. */

import { Anchor, Badge, Group, Tabs, Text, Textarea, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate, useParams } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Dialog, Form } from '@/ui/Dialog';
import { Answer } from '@/ui/Feedback';
import { Icon, type IconName } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { RoleMark } from '@/ui/RoleMark';

import Accounts from './Accounts';
import Budgets from './Budgets';
import Caps from './Caps';
import Changes from './Changes';
import Members from './Members';
import Priority from './Priority';
import QueueList from './QueueList';
import Registries from './Registries';
import Secrets from './Secrets';
import { DisabledNotice, Standing } from './Standing';
import { words } from './text';

export type TenantOut = Schemas['TenantOut'];
/** What the reader may do here: `runs` counts operators in, `owns` is a manager of the tenant alone. */
export interface Part {
  tenant: TenantOut;
  runs: boolean;
  owns: boolean;
}

const TABS = ['members', 'accounts', 'queues', 'caps', 'priority', 'secrets', 'registries', 'budgets', 'changes'] as const;
type Tab = (typeof TABS)[number];
const LOOK: Record<Tab, { icon: IconName; Part: (props: Part) => React.ReactNode }> = {
  members: { icon: 'users', Part: Members },
  accounts: { icon: 'key', Part: Accounts },
  queues: { icon: 'queues', Part: QueueList },
  caps: { icon: 'filter', Part: Caps },
  priority: { icon: 'star', Part: Priority },
  secrets: { icon: 'key', Part: Secrets },
  registries: { icon: 'clusters', Part: Registries },
  budgets: { icon: 'prices', Part: Budgets },
  changes: { icon: 'audit', Part: Changes },
};

export default function Tenant() {
  const { slug = '', tab } = useParams();
  const query = useQuery({ queryKey: ['tenant', slug], queryFn: () => take(api.GET('/api/v1/tenants/{tenant}', { params: { path: { tenant: slug } } })) });
  return <Answer query={query}>{(tenant) => <Shown tenant={tenant} tab={(TABS as readonly string[]).includes(tab ?? '') ? (tab as Tab) : 'members'} />}</Answer>;
}

function Shown({ tenant, tab }: { tenant: TenantOut; tab: Tab }) {
  const t = useText(words);
  const navigate = useNavigate();
  const session = useSession();
  const owns = tenant.role === 'manager';
  const runs = owns || session.isOperator;
  const offered = TABS.filter((name) => (name !== 'changes' || runs) && (name !== 'budgets' || session.has('billing'))).filter((name) => (name !== 'secrets' && name !== 'registries') || tenant.role === 'manager' || tenant.role === 'member');
  const { Part } = LOOK[tab];
  return (
    <Page
      title={tenant.name}
      subtitle={
        <Group gap="xs">
          <Anchor component={Link} to="/tenants" size="sm">
            {t('back')}
          </Anchor>
          {tenant.parent && (
            <Text size="sm" span>
              {t('partOf')}{' '}
              <Anchor component={Link} to={`/tenants/${tenant.parent.slug}`} size="sm">
                {tenant.parent.name}
              </Anchor>
            </Text>
          )}
          <Badge variant="default" tt="none" ff="monospace">
            {tenant.slug}
          </Badge>
          <RoleMark role={tenant.role} />
          {tenant.description && (
            <Text size="sm" span style={{ overflowWrap: 'anywhere' }}>
              {tenant.description}
            </Text>
          )}
        </Group>
      }
      actions={
        <>
          {runs && (
            <Dialog label={t('edit')} title={t('edit')} variant="default" leftSection={<Icon name="edit" size={16} />}>
              {(close) => <EditForm tenant={tenant} close={close} />}
            </Dialog>
          )}
          {session.isOperator && <Standing tenant={tenant} />}
        </>
      }
    >
      <DisabledNotice tenant={tenant} />
      <Tabs value={tab} onChange={(value) => value && void navigate(`/tenants/${tenant.slug}/${value}`)} keepMounted={false}>
        <Tabs.List aria-label={t('tabs')}>
          {offered.map((name) => (
            <Tabs.Tab key={name} value={name} leftSection={<Icon name={LOOK[name].icon} size={16} />}>
              {t(name)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={tab} pt="md">
          <Part tenant={tenant} owns={owns} runs={runs} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function EditForm({ tenant, close }: { tenant: TenantOut; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [name, setName] = useState(tenant.name);
  const [description, setDescription] = useState(tenant.description);
  const submit = async () => {
    await api.PATCH('/api/v1/tenants/{tenant}', { params: { path: { tenant: tenant.slug }, header: { 'If-Match': `"${tenant.version}"` } }, body: { name: name.trim(), description: description.trim() } });
    await Promise.all([queries.invalidateQueries({ queryKey: ['tenant', tenant.slug] }), queries.invalidateQueries({ queryKey: ['tenants'] })]);
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={c('save')}>
      {(at) => (
        <>
          <TextInput label={c('name')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required data-autofocus />
          <Textarea label={t('description')} value={description} onChange={(event) => setDescription(event.currentTarget.value)} error={at('/description')} autosize minRows={2} />
        </>
      )}
    </Form>
  );
}
