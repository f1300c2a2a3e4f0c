/** The volumes that one may use: how full they are, and with whom they are shared. */

import { Anchor, Group, NumberInput, Progress, Select, Stack, Switch, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link, useNavigate } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { useClusters, useTenantNames } from '@/api/fleet';
import { usePaged } from '@/api/paging';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { PagedView } from '@/ui/PagedView';
import { Rows, type Column } from '@/ui/Rows';
import { Mark } from '@/ui/Status';

import { pageOf } from './paths';
import { words } from './text';

export type Volume = Schemas['VolumeOut'];
export const GIB = 1024 ** 3;
const KEY = ['volumes'] as const;
const PAGE = 100;

export function Volumes() {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const list = usePaged([...KEY, 'list'], (cursor) => take(api.GET('/api/v1/volumes', { params: { query: { limit: PAGE, cursor } } })));
  const columns = useMemo<readonly Column<Volume>[]>(
    () => [
      { key: 'name', header: c('name'), width: 'minmax(9rem, 2fr)', cell: (volume) => <Name volume={volume} /> },
      { key: 'tenant', header: c('tenant'), width: 'minmax(6rem, 1fr)', isMinor: true, cell: (volume) => <Text size="sm">{volume.tenant.name}</Text> },
      { key: 'where', header: t('where'), width: 'minmax(6rem, 1.2fr)', isMinor: true, cell: (volume) => <Where volume={volume} /> },
      { key: 'used', header: t('used'), width: 'minmax(8rem, 1.3fr)', cell: (volume) => <Used volume={volume} /> },
      { key: 'sharing', header: t('sharing'), width: 'minmax(6rem, 1fr)', isMinor: true, cell: (volume) => <Sharing volume={volume} /> },
      { key: 'by', header: t('createdBy'), width: 'minmax(5rem, 0.8fr)', isMinor: true, cell: (volume) => <Text size="sm">{volume.created_by?.name ?? '–'}</Text> },
    ],
    [t, c],
  );
  const create = (session.may('member') || session.isOperator) && <Create />;
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed" size="sm">
          {t('volumesText')}
        </Text>
        <Group gap="xs">
          <CopyAs ways={{ cli: 'berth volumes list', curl: curl('GET', '/volumes'), python: 'import berth\n\nwith berth.Client() as client:\n    for volume in client.volumes.list():\n        print(volume["name"], volume["used_bytes"])' }} />
          {create}
        </Group>
      </Group>
      <PagedView
        list={list}
        isVirtual
        empty={
          <Empty icon="data" title={t('volumesNone')} command={session.may('member') ? 'berth volumes create digits\nberth cp ./data digits:raw' : undefined}>
            {t(session.may('member') ? 'volumesNoneHint' : 'volumesNoneViewer')}
          </Empty>
        }
      >
        {(rows) => <Rows label={t('volumes')} rows={rows} columns={columns} rowKey={(volume) => volume.id} rowHeight={56} onEnd={list.more} height={`min(calc(100dvh - 19rem), ${rows.length * 56 + 48}px)`} />}
      </PagedView>
    </Stack>
  );
}

function Name({ volume }: { volume: Volume }) {
  const t = useText(words);
  return (
    <Stack gap={2}>
      <Group gap="xs" wrap="nowrap">
        <Anchor component={Link} to={pageOf(volume.id, '')} fw={600} size="sm" truncate>
          {volume.name}
        </Anchor>
        {volume.read_only && <Mark icon="key" color="gray" label={t('readOnly')} size="sm" />}
      </Group>
      {volume.description && (
        <Text size="xs" c="dimmed" truncate title={volume.description}>
          {volume.description}
        </Text>
      )}
    </Stack>
  );
}

/** Where its data is. */
export function Where({ volume }: { volume: Volume }) {
  const t = useText(words);
  const at = volume.kind === 'nfs' ? `${volume.server}:${volume.export}` : volume.claim;
  const place = volume.kind === 'claim' ? t('onClaim', { cluster: volume.cluster?.name ?? '' }) : t(volume.kind === 'nfs' ? 'onNfs' : 'onHost');
  return (
    <Text size="sm" truncate title={at || undefined}>
      {place}
    </Text>
  );
}

export function Used({ volume }: { volume: Volume }) {
  const t = useText(words);
  const format = useFormat();
  if (volume.kind !== 'local') {
    return (
      <Text size="sm" c="dimmed">
        {volume.size_quota_bytes === null ? t('sizeOfStorage') : t('sizeOfClaim', { size: format.bytes(volume.size_quota_bytes) })}
      </Text>
    );
  }
  if (volume.used_bytes === null) {
    return (
      <Text size="sm" c="dimmed">
        {t('notMeasured')}
      </Text>
    );
  }
  const used = format.bytes(volume.used_bytes);
  const quota = volume.size_quota_bytes;
  const said = quota === null ? t('usedNoQuota', { used }) : t('usedOf', { used, quota: format.bytes(quota) });
  return (
    <Stack gap={4} w="100%" title={volume.used_read_at ? t('measured', { when: format.time(volume.used_read_at) }) : undefined}>
      <Text size="sm">{said}</Text>
      {quota !== null && quota > 0 && <Progress value={Math.min(100, (volume.used_bytes / quota) * 100)} color={volume.used_bytes >= quota ? 'red' : 'berth'} aria-label={said} />}
    </Stack>
  );
}

function Sharing({ volume }: { volume: Volume }) {
  const t = useText(words);
  const words_ = volume.is_granted ? t('grantedBy', { name: volume.tenant.name }) : volume.grants.length > 0 ? t('sharedCount', { count: volume.grants.length }) : t('sharedNone');
  return (
    <Text size="sm" c={volume.is_granted || volume.grants.length > 0 ? undefined : 'dimmed'} truncate title={volume.grants.map((grant) => grant.tenant.name).join(', ')}>
      {words_}
    </Text>
  );
}

function Create() {
  const t = useText(words);
  return (
    <Dialog label={t('create')} title={t('create')} leftSection={<Icon name="submit" size={16} />}>
      {(close) => <CreateForm close={close} />}
    </Dialog>
  );
}

function CreateForm({ close }: { close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const { who, may, isOperator } = useSession();
  const cache = useQueryClient();
  const navigate = useNavigate();
  const all = useTenantNames(isOperator);
  const clusters = useClusters();
  const own = who.tenants.filter((tenant) => may('member', tenant.slug));
  const tenants = isOperator ? (all.data ?? own) : own;
  const [tenant, setTenant] = useState(own[0]?.slug ?? '');
  const [kind, setKind] = useState<Volume['kind']>('local');
  const [cluster, setCluster] = useState('');
  const [claim, setClaim] = useState('');
  const [server, setServer] = useState('');
  const [folder, setFolder] = useState('');
  const [readOnly, setReadOnly] = useState(false);
  const ofClaim = kind === 'claim' ? { cluster, claim: claim.trim() } : { cluster: '', claim: '' };
  const ofShare = kind === 'nfs' ? { server: server.trim(), export: folder.trim() } : { server: '', export: '' };
  const hasSize = kind === 'local' || (kind === 'claim' && claim.trim() === '');
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [quota, setQuota] = useState<number | string>('');
  const submit = async () => {
    const made = await take(api.POST('/api/v1/volumes', { body: { name: name.trim(), tenant: tenant || null, description, size_quota_bytes: hasSize ? bytesOf(quota) : null, read_only: readOnly, kind, ...ofClaim, ...ofShare } }));
    await cache.invalidateQueries({ queryKey: KEY });
    close();
    void navigate(pageOf(made.id, ''));
  };
  return (
    <Form submit={submit} label={c('create')} onCancel={close}>
      {(at) => (
        <>
          <TextInput label={c('name')} description={t('nameHint')} value={name} maxLength={63} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required data-autofocus />
          {(isOperator || tenants.length > 1) && <Select label={c('tenant')} searchable allowDeselect={false} data={tenants.map((each) => ({ value: each.slug, label: each.name }))} value={tenant || null} onChange={(value) => setTenant(value ?? '')} error={at('/tenant')} />}
          <TextInput label={t('description')} value={description} maxLength={500} onChange={(event) => setDescription(event.currentTarget.value)} error={at('/description')} />
          <Select label={t('where')} allowDeselect={false} data={[{ value: 'local', label: t('onHost') }, { value: 'claim', label: t('onAClaim') }, ...(isOperator ? [{ value: 'nfs', label: t('onNfs') }] : [])]} value={kind} onChange={(value) => setKind((value ?? 'local') as Volume['kind'])} error={at('/kind')} />
          {kind === 'claim' && (
            <Select label={t('cluster')} description={t('clusterHint')} allowDeselect={false} data={(clusters.data ?? []).filter((each) => each.kind === 'kubernetes').map((each) => ({ value: each.name, label: each.name }))} value={cluster || null} onChange={(value) => setCluster(value ?? '')} error={at('/cluster')} required />
          )}
          {kind === 'claim' && isOperator && <TextInput label={t('claim')} description={t('claimHint')} value={claim} maxLength={253} onChange={(event) => setClaim(event.currentTarget.value)} error={at('/claim')} />}
          {kind === 'nfs' && (
            <>
              <TextInput label={t('server')} description={t('serverHint')} value={server} maxLength={253} onChange={(event) => setServer(event.currentTarget.value)} error={at('/server')} required />
              <TextInput label={t('export')} placeholder="/exports/data" value={folder} maxLength={500} onChange={(event) => setFolder(event.currentTarget.value)} error={at('/export')} required />
            </>
          )}
          {hasSize && <NumberInput label={t(kind === 'local' ? 'quotaGib' : 'sizeGib')} description={t(kind === 'local' ? 'quotaHint' : 'sizeHint')} min={0} value={quota} onChange={setQuota} error={at('/size_quota_bytes')} />}
          {kind !== 'local' && <Switch label={t('readOnlyLabel')} checked={readOnly} onChange={(event) => setReadOnly(event.currentTarget.checked)} />}
        </>
      )}
    </Form>
  );
}

export function EditForm({ volume, close }: { volume: Volume; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const cache = useQueryClient();
  const [description, setDescription] = useState(volume.description);
  const [quota, setQuota] = useState<number | string>(volume.size_quota_bytes === null ? '' : volume.size_quota_bytes / GIB);
  const [readOnly, setReadOnly] = useState(volume.read_only);
  const submit = async () => {
    await take(api.PATCH('/api/v1/volumes/{volume_id}', { params: { path: { volume_id: volume.id } }, body: { description, ...(volume.kind === 'local' ? { size_quota_bytes: bytesOf(quota) } : {}), ...(readOnly === volume.read_only ? {} : { read_only: readOnly }) } }));
    await Promise.all([cache.invalidateQueries({ queryKey: KEY }), cache.invalidateQueries({ queryKey: ['volume', volume.id] })]);
    close();
  };
  return (
    <Form submit={submit} label={c('save')} onCancel={close}>
      {(at) => (
        <>
          <TextInput label={t('description')} value={description} maxLength={500} onChange={(event) => setDescription(event.currentTarget.value)} error={at('/description')} data-autofocus />
          {volume.kind === 'local' && <NumberInput label={t('quotaGib')} description={t('quotaHint')} min={0} value={quota} onChange={setQuota} error={at('/size_quota_bytes')} />}
          <Switch label={t('readOnlyLabel')} checked={readOnly} onChange={(event) => setReadOnly(event.currentTarget.checked)} />
        </>
      )}
    </Form>
  );
}

function bytesOf(gib: number | string): number | null {
  return gib === '' ? null : Math.round(Number(gib) * GIB);
}
