/** One inbox for whatever somebody asks for and somebody else decides. */

import { Anchor, Button, Group, Paper, SegmentedControl, Stack, Text } from '@mantine/core';
import { useMemo } from 'react';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { usePaged, type Paged } from '@/api/paging';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Dialog } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { AskForm } from './AskForm';
import { Deeds } from './Deeds';
import type { Asked, PriorityRequest, QuotaRequest } from './requests';
import { StateMark } from './StateMark';
import { words } from './text';
import { ChangeList } from '../quotas/Edits';

const VIEWS = ['waiting', 'history'] as const;
const KINDS = ['', 'priority', 'quota'] as const;

export default function Approvals() {
  const t = useText(words);
  const session = useSession();
  const [search, put] = useAddress('step');
  const view = VIEWS.find((name) => name === search.get('view')) ?? 'waiting';
  const kind = KINDS.find((name) => name === search.get('kind')) ?? '';
  const state = view === 'waiting' ? ('pending' as const) : undefined;
  const priorities = usePaged<PriorityRequest>(['priority_requests', view], (cursor) => take(api.GET('/api/v1/priority-requests', { params: { query: { limit: 50, cursor, state } } })), kind !== 'quota');
  const quotas = usePaged<QuotaRequest>(['quota_requests', view], (cursor) => take(api.GET('/api/v1/quota/requests', { params: { query: { limit: 50, cursor, state } } })), kind !== 'priority');
  const list = useMemo(() => merged(kind === 'quota' ? null : priorities, kind === 'priority' ? null : quotas), [kind, priorities, quotas]);
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <>
          <CopyAs
            ways={{
              cli: 'berth priority list --state pending\nberth queues requests --state pending',
              curl: `${curl('GET', '/priority-requests?state=pending')}\n${curl('GET', '/quota/requests?state=pending')}`,
              python: 'from berth import Client\n\nwith Client() as client:\n    print(client.request("GET", "/priority-requests", params={"state": "pending"}))\n    print(client.request("GET", "/quota/requests", params={"state": "pending"}))',
            }}
          />
          {session.may('manager') && (
            <Button component={Link} to="/quotas" variant="default" leftSection={<Icon name="quotas" size={16} />}>
              {t('askQuota')}
            </Button>
          )}
          {session.may('member') && (
            <Dialog label={t('ask')} title={t('ask')} leftSection={<Icon name="submit" size={16} />}>
              {(close) => <AskForm close={close} />}
            </Dialog>
          )}
        </>
      }
    >
      <Group>
        <SegmentedControl aria-label={t('views')} value={view} onChange={(value) => put({ view: value === 'waiting' ? '' : value })} data={VIEWS.map((value) => ({ value, label: t(value) }))} />
        <SegmentedControl aria-label={t('kinds')} value={kind} onChange={(value) => put({ kind: value })} data={KINDS.map((value) => ({ value, label: t(value || 'anyKind') }))} />
      </Group>
      <PagedView
        list={list}
        empty={
          <Empty icon="approvals" title={t(view === 'waiting' ? 'empty' : 'emptyAll')} command='berth priority request JOB high --reason "The demo is on Friday."'>
            {t('emptyHint')}
          </Empty>
        }
      >
        {(rows) => (
          <Stack component="ul" gap="sm" p={0} m={0} style={{ listStyle: 'none' }}>
            {rows.map((asked) => (
              <li key={asked.row.id}>
                <One asked={asked} />
              </li>
            ))}
          </Stack>
        )}
      </PagedView>
    </Page>
  );
}

/** Two lists as one, newest first. Absent: not asked for. */
function merged(priorities: Paged<PriorityRequest> | null, quotas: Paged<QuotaRequest> | null): Paged<Asked> {
  const parts = [priorities, quotas].filter((part) => part !== null);
  const error = parts.find((part) => part.error)?.error ?? null;
  const isThere = parts.every((part) => part.rows !== null);
  const rows: Asked[] = [...(priorities?.rows ?? []).map((row): Asked => ({ kind: 'priority', row })), ...(quotas?.rows ?? []).map((row): Asked => ({ kind: 'quota', row }))];
  rows.sort((a, b) => b.row.created_at.localeCompare(a.row.created_at));
  return {
    rows: isThere ? rows : null,
    error,
    hasMore: parts.some((part) => part.hasMore),
    isReading: parts.some((part) => part.isReading),
    more: () => parts.forEach((part) => part.more()),
    retry: () => parts.forEach((part) => part.retry()),
  };
}

function One({ asked }: { asked: Asked }) {
  const t = useText(words);
  const session = useSession();
  const { row } = asked;
  const by = row.created_by?.name ?? '–';
  return (
    <Paper withBorder p="md" component="article" aria-label={t('askedBy', { name: by, tenant: row.tenant.name })}>
      <Group justify="space-between" align="flex-start" gap="md">
        <Stack gap={6} style={{ flex: '1 1 22rem', minWidth: 0 }}>
          <Group gap="xs">
            <Mark icon={asked.kind === 'priority' ? 'star' : 'quotas'} color={asked.kind === 'priority' ? 'violet' : 'indigo'} label={t(asked.kind)} />
            <StateMark state={row.state} />
            <Text size="sm">
              {t('askedBy', { name: by, tenant: row.tenant.name })} · <When at={row.created_at} />
            </Text>
            {row.created_by?.id === session.who.user.id && <Mark icon="account" color="gray" label={t('yours')} size="sm" />}
          </Group>
          {asked.kind === 'priority' ? <PriorityWords row={asked.row} /> : <QuotaWords row={asked.row} />}
          <Text size="sm" c={row.reason ? undefined : 'dimmed'} style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
            {row.reason || t('noReason')}
          </Text>
          {row.decided_at && (
            <Text size="sm" c="dimmed">
              {t('decided', { name: row.decided_by?.name ?? '–' })} <When at={row.decided_at} />
              {row.answer && `: ${row.answer}`}
            </Text>
          )}
          {row.state === 'pending' && (
            <Text size="xs" c="dimmed">
              {t('lapses')} <When at={row.expires_at} />
            </Text>
          )}
        </Stack>
        <Deeds asked={asked} />
      </Group>
    </Paper>
  );
}

function PriorityWords({ row }: { row: PriorityRequest }) {
  const t = useText(words);
  const format = useFormat();
  const known = ['low', 'normal', 'high', 'urgent'].includes(row.priority_name);
  const priority = known ? `${t(row.priority_name as 'low')} (${row.priority})` : String(row.priority);
  return (
    <div>
      <Text fw={600} style={{ overflowWrap: 'anywhere' }}>
        {row.job ? (
          <Anchor component={Link} to={`/jobs/${row.job.id}`} fw={600}>
            {t('forJob', { priority, job: row.job.name })}
          </Anchor>
        ) : (
          t('forWhile', { priority, user: row.user.name })
        )}
      </Text>
      {!row.job && (
        <Text size="sm">
          {t('window', { from: format.time(row.starts_at), until: format.time(row.ends_at) })}
        </Text>
      )}
    </div>
  );
}

function QuotaWords({ row }: { row: QuotaRequest }) {
  const t = useText(words);
  const format = useFormat();
  return (
    <div>
      <Text fw={600}>{row.effective_from ? t('limits', { time: format.time(row.effective_from) }) : t('limitsNow')}</Text>
      <ChangeList changes={row.changes} />
    </div>
  );
}
