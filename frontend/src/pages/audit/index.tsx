/** Who did what: filters in the address, rows by cursor, what changed as a diff. */

import { Anchor, Autocomplete, Button, Group, Select, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { useTenantNames } from '@/api/fleet';
import { usePaged } from '@/api/paging';
import { useSession } from '@/api/session';
import { useAddress, useSettling } from '@/app/address';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Empty } from '@/ui/Feedback';
import { saveCsv } from '@/ui/files';
import { Icon } from '@/ui/Icon';
import { MomentInput } from '@/ui/MomentInput';
import { notify, notifyProblem } from '@/ui/notify';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';
import { Rows, type Column } from '@/ui/Rows';

import { Details } from './Details';
import { words } from './text';

export type Entry = Schemas['AuditOut'];
interface Filters {
  actor?: string;
  verb?: string;
  target_kind?: string;
  target_id?: string;
  tenant?: string;
  since?: string;
  until?: string;
}

const PAGE = 200;
const EXPORT_MAX = 10_000;
const VERBS =
  'booking.create booking.cancel budget.edit cap.edit cluster.trust device_code.approve feature.edit image.create image.delete invitation.accept invitation.create invitation.delete job.edit job.exec job.move job.stop job.submit member.edit node.cordon node.drain node.taint pool.edit price.edit priority_grant.edit priority_request.decide queue.create queue.edit queue.limit quota_edit.apply quota_edit.cancel quota_edit.plan secret.delete secret.edit service_account.edit session.create session.delete tenant.create tenant.edit token.create token.delete user.create user.edit volume.create volume.delete volume.edit volume.grant volume.write'.split(' ');
const KINDS = 'announcement attempt booking cluster device_code feature image installation invitation job maintenance node pool priority_request queue quota_edit quota_request secret session subscription template tenant token upload user volume'.split(' ');
const NAMES = ['actor', 'verb', 'kind', 'target', 'tenant', 'since', 'until'] as const;

function readPage(filters: Filters, cursor: string | undefined, limit = PAGE) {
  return take(api.GET('/api/v1/audit', { params: { query: { ...filters, cursor, limit } } }));
}

export default function Audit() {
  const t = useText(words);
  const session = useSession();
  if (!session.isOperator && !session.may('manager')) {
    return (
      <Page title={t('title')}>
        <Empty icon="audit" title={t('forbidden')} />
      </Page>
    );
  }
  return <List />;
}

function List() {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const session = useSession();
  const [search, put] = useAddress();
  const [shown, setShown] = useState<Entry | null>(null);
  const get = (name: (typeof NAMES)[number]) => search.get(name) ?? undefined;
  const [verb, typeVerb] = useSettling(get('verb') ?? '', (text) => put({ verb: text.trim() }));
  const [kind, typeKind] = useSettling(get('kind') ?? '', (text) => put({ kind: text.trim(), ...(text.trim() ? {} : { target: null }) }));
  const [since, typeSince] = useSettling(get('since') ?? '', (text) => put({ since: text }));
  const [until, typeUntil] = useSettling(get('until') ?? '', (text) => put({ until: text }));
  const [target, typeTarget] = useSettling(get('target') ?? '', (text) => put({ target: text.trim() }));
  const filters: Filters = Object.fromEntries(
    Object.entries({ actor: get('actor'), verb: get('verb'), target_kind: get('kind'), target_id: get('kind') ? get('target') : undefined, tenant: get('tenant'), since: get('since'), until: get('until') }).filter(([, value]) => value),
  );
  const list = usePaged<Entry>(['audit', filters], (cursor) => readPage(filters, cursor));
  const users = useQuery({ queryKey: ['users', 'known'], staleTime: 60_000, queryFn: () => take(api.GET('/api/v1/users', { params: { query: { limit: 500 } } })) });
  const tenants = useTenantNames();
  const tenantNames = new Map((tenants.data ?? []).map((tenant) => [tenant.id, tenant.name]));
  const managed = (tenants.data ?? []).filter((tenant) => session.isOperator || tenant.role === 'manager');
  const people = (users.data?.items ?? []).map((user) => ({ value: user.id, label: user.name }));
  const actor = get('actor');
  const columns: Column<Entry>[] = [
    {
      key: 'when',
      header: t('when'),
      width: '12.5rem',
      cell: (entry) => (
        <Anchor component="button" type="button" size="sm" aria-haspopup="dialog" onClick={() => setShown(entry)} title={format.timeWithZone(entry.at)} aria-label={`${entry.verb}, ${format.time(entry.at)}`}>
          {format.time(entry.at)}
        </Anchor>
      ),
    },
    { key: 'actor', header: t('actor'), width: 'minmax(6rem, 1fr)', isMinor: true, cell: (entry) => entry.actor.name || t('system') },
    {
      key: 'verb',
      header: t('verb'),
      width: 'minmax(9rem, 1.2fr)',
      cell: (entry) => (
        <Text span ff="monospace" size="sm">
          {entry.verb}
          {entry.count > 1 && ` × ${entry.count}`}
        </Text>
      ),
    },
    {
      key: 'object',
      header: t('object'),
      width: 'minmax(9rem, 2fr)',
      isMinor: true,
      cell: (entry) => (
        <>
          <Text span size="sm" c="dimmed">
            {entry.target.kind}
          </Text>{' '}
          <bdi>{entry.target.name || entry.target.id}</bdi>
        </>
      ),
    },
    { key: 'tenant', header: t('tenant'), width: 'minmax(6rem, 1fr)', isMinor: true, cell: (entry) => (entry.tenant_id && tenantNames.get(entry.tenant_id)) || '–' },
  ];
  const asQuery = new URLSearchParams(filters as Record<string, string>).toString();
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      wide
      actions={
        <>
          <CopyAs
            ways={() => ({
              cli: `berth audit -n 200${filters.verb ? ` --verb ${quote(filters.verb)}` : ''} --json`,
              curl: curl('GET', `/audit${asQuery ? `?${asQuery}` : ''}`),
              python: `from berth import Client\n\nwith Client() as client:\n    for entry in client.request("GET", "/audit", params=${JSON.stringify(filters)})["items"]:\n        print(entry["at"], entry["actor"]["name"], entry["verb"], entry["target"]["name"])`,
            })}
          />
          <Export filters={filters} tenantNames={tenantNames} />
        </>
      }
    >
      <Group align="flex-end" gap="xs">
        <Select label={t('actor')} placeholder={t('anyone')} clearable searchable limit={50} w={170} data={actor && !people.some((user) => user.value === actor) ? [...people, { value: actor, label: actor }] : people} value={actor ?? null} onChange={(value) => put({ actor: value })} />
        <Autocomplete label={t('verb')} placeholder={t('verbHint')} w={190} data={VERBS} limit={40} value={verb} onChange={typeVerb} />
        <Autocomplete label={t('kind')} w={150} data={KINDS} limit={40} value={kind} onChange={typeKind} />
        {get('kind') && <TextInput label={t('target')} w={190} value={target} onChange={(event) => typeTarget(event.currentTarget.value)} />}
        <Select label={t('tenant')} placeholder={t('anywhere')} clearable searchable limit={50} w={170} data={managed.map((tenant) => ({ value: tenant.slug, label: tenant.name }))} value={get('tenant') ?? null} onChange={(value) => put({ tenant: value })} />
        <MomentInput label={`${t('since')} (${format.zoneName})`} w={240} value={since} onChange={(moment) => typeSince(moment ?? '')} />
        <MomentInput label={`${t('until')} (${format.zoneName})`} w={240} value={until} onChange={(moment) => typeUntil(moment ?? '')} />
        {Object.keys(filters).length > 0 && (
          <Button variant="subtle" onClick={() => put(Object.fromEntries(NAMES.map((name) => [name, null])))}>
            {t('clear')}
          </Button>
        )}
        <Button variant="default" leftSection={<Icon name="refresh" size={16} />} onClick={list.retry}>
          {t('refresh')}
        </Button>
      </Group>
      <PagedView
        list={list}
        isVirtual
        empty={
          <Empty icon="audit" title={t('empty')} command="berth audit">
            {t('emptyHint')}
          </Empty>
        }
      >
        {(rows) => <Rows label={t('title')} rows={rows} columns={columns} rowKey={(entry) => entry.id} onEnd={list.more} rowHeight={38} selected={(entry) => entry.id === shown?.id} />}
      </PagedView>
      <Text size="sm" c="dimmed">
        {c('timesIn', { zone: format.zoneName })}
      </Text>
      {shown && (
        <Details
          entry={shown}
          tenant={(shown.tenant_id && tenantNames.get(shown.tenant_id)) || null}
          close={() => setShown(null)}
          narrow={(values) => {
            setShown(null);
            put(values);
          }}
        />
      )}
    </Page>
  );
}

/** All rows that fit, up to a bound, read page by page and saved as a file. */
function Export({ filters, tenantNames }: { filters: Filters; tenantNames: ReadonlyMap<string, string> }) {
  const t = useText(words);
  const [read, setRead] = useState<number | null>(null);
  const run = async () => {
    setRead(0);
    try {
      const rows: Entry[] = [];
      let cursor: string | undefined;
      do {
        const page = await readPage(filters, cursor, 500);
        rows.push(...page.items);
        cursor = page.next ?? undefined;
        setRead(rows.length);
      } while (cursor && rows.length < EXPORT_MAX);
      const head = ['at', 'actor', 'actor_id', 'verb', 'count', 'kind', 'target', 'target_id', 'tenant', 'before', 'after', 'request_id', 'seq', 'hash'];
      const lines = rows.map((row) => [
        row.at, row.actor.name, row.actor.id, row.verb, row.count, row.target.kind, row.target.name, row.target.id, row.tenant_id ? (tenantNames.get(row.tenant_id) ?? row.tenant_id) : null,
        row.before && JSON.stringify(row.before), row.after && JSON.stringify(row.after), row.request_id, row.seq, row.hash,
      ]);
      saveCsv('berth-audit.csv', [head, ...lines]);
      if (cursor) notify(t('exportedPart', { count: rows.length }));
    } catch (error) {
      notifyProblem(error);
    } finally {
      setRead(null);
    }
  };
  return (
    <Button variant="default" leftSection={<Icon name="download" size={16} />} disabled={read !== null} onClick={() => void run()}>
      {read === null ? t('export') : t('exporting', { count: read })}
    </Button>
  );
}
