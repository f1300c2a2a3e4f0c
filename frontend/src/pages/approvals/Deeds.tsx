/** What the reader may do with a request: decide it, take it back, look at what it would do. */

import { Alert, Button, Group, Stack, Text, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take } from '@/api/client';
import { queries } from '@/api/query';
import { useSession, type SessionState } from '@/api/session';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Dialog, Form } from '@/ui/Dialog';
import { ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { notify } from '@/ui/notify';

import type { Asked, PriorityRequest, QuotaRequest } from './requests';
import { words } from './text';
import { Told } from '../quotas/Consequences';

/** Nobody decides what they asked for themselves; limits are decided where the queue above belongs. */
function mayDecide(session: SessionState, asked: Asked): boolean {
  if (asked.row.state !== 'pending' || asked.row.created_by?.id === session.who.user.id) return false;
  if (session.isOperator) return true;
  if (asked.kind === 'priority') return session.may('manager', asked.row.tenant.slug);
  const above = session.who.tenants.find((tenant) => tenant.slug === asked.row.tenant.slug)?.parent;
  return session.who.tenants.some((tenant) => tenant.role === 'manager' && (tenant.slug === above || tenant.id === above));
}

const renew = () => Promise.all(['priority_requests', 'quota_requests', 'quotas', 'queues', 'jobs'].map((name) => queries.invalidateQueries({ queryKey: [name] })));

export function Deeds({ asked }: { asked: Asked }) {
  const t = useText(words);
  const session = useSession();
  const { row } = asked;
  const isOwn = row.created_by?.id === session.who.user.id;
  const runs = session.isOperator || session.may('manager', row.tenant.slug);
  const name = row.created_by?.name ?? '–';
  const path = { params: { path: { request_id: row.id } } };
  const withdraw = async () => {
    if (asked.kind === 'priority') await api.DELETE('/api/v1/priority-requests/{request_id}', path);
    else await api.DELETE('/api/v1/quota/requests/{request_id}', path);
    await renew();
  };
  const decides = mayDecide(session, asked);
  const isRunning = asked.kind === 'priority' && row.state === 'approved' && asked.row.job === null && Date.parse(asked.row.ends_at ?? '') > Date.now();
  return (
    <Stack gap="xs" align="flex-end">
      <Group gap="xs">
        {decides && (
          <>
            <Dialog label={t('deny')} title={t('denyTitle', { name })} variant="light" color="red" leftSection={<Icon name="cross" size={16} />}>
              {(close) => <Decision asked={asked} verb="deny" close={close} />}
            </Dialog>
            <Dialog label={t('approve')} title={t('approveTitle', { name })} size="lg" leftSection={<Icon name="check" size={16} />}>
              {(close) => <Decision asked={asked} verb="approve" close={close} />}
            </Dialog>
          </>
        )}
        {row.state === 'pending' && (isOwn || (runs && !decides)) && (
          <Confirm label={t('withdraw')} title={t('withdrawTitle')} variant="default" act={withdraw}>
            {t('withdrawHint')}
          </Confirm>
        )}
        {isRunning && (isOwn || runs) && (
          <Confirm label={t('end')} title={t('endTitle')} variant="light" color="red" act={withdraw}>
            {t('endHint')}
          </Confirm>
        )}
      </Group>
    </Stack>
  );
}

function Decision({ asked, verb, close }: { asked: Asked; verb: 'approve' | 'deny'; close: () => void }) {
  const t = useText(words);
  const format = useFormat();
  const [answer, setAnswer] = useState('');
  const [from, setFrom] = useState<TypedMoment>(asked.kind === 'quota' && asked.row.effective_from && Date.parse(asked.row.effective_from) > Date.now() ? asked.row.effective_from : '');
  const submit = async () => {
    const path = { params: { path: { request_id: asked.row.id } } };
    const body = { answer: answer.trim() };
    if (asked.kind === 'priority') await (verb === 'approve' ? api.POST('/api/v1/priority-requests/{request_id}/approve', { ...path, body }) : api.POST('/api/v1/priority-requests/{request_id}/deny', { ...path, body }));
    else if (verb === 'approve') await api.POST('/api/v1/quota/requests/{request_id}/approve', { ...path, body: { ...body, ...(from ? { effective_from: from } : {}) } });
    else await api.POST('/api/v1/quota/requests/{request_id}/deny', { ...path, body });
    notify(t('saved'));
    close();
    await renew();
  };
  return (
    <Form submit={submit} onCancel={close} label={t(verb)}>
      {(at) => (
        <>
          {asked.kind === 'quota' && verb === 'approve' && <Trial row={asked.row} />}
          {asked.kind === 'priority' && verb === 'approve' && asked.row.job && <Rank row={asked.row} />}
          {verb === 'approve' && (
            <Text size="sm" c="dimmed">
              {t(asked.kind === 'priority' ? 'approvePriority' : 'approveQuota')}
            </Text>
          )}
          {asked.kind === 'quota' && verb === 'approve' && <MomentInput label={`${t('from')} (${format.zoneName})`} value={from} onChange={setFrom} error={at('/effective_from')} />}
          <Textarea label={t('answer')} description={t('answerHint')} value={answer} onChange={(event) => setAnswer(event.currentTarget.value)} error={at('/answer')} autosize minRows={2} data-autofocus />
        </>
      )}
    </Form>
  );
}

/** The edit that was asked for, tried: who would start, wait or be evicted. */
function Trial({ row }: { row: QuotaRequest }) {
  const t = useText(words);
  const trial = useMutation({
    mutationFn: () =>
      take(
        api.POST('/api/v1/quota/edits', {
          body: {
            dry_run: true,
            comment: '',
            tenant: row.tenant.slug,
            changes: row.changes.flatMap((change) => (change.queue && change.pool ? [{ queue: change.queue.id, pool: change.pool.id, resource: change.resource as 'gpu_millis', ...change.values, ...numbers(change.values) }] : [])),
          },
        }),
      ),
  });
  return (
    <Stack gap="xs" aria-live="polite">
      <Group>
        <Button variant="default" size="xs" loading={trial.isPending} onClick={() => trial.mutate()} leftSection={<Icon name="search" size={14} />}>
          {t('whatWould')}
        </Button>
      </Group>
      {trial.error && <ProblemView error={trial.error} />}
      {trial.data && (
        <Alert color="blue" py="xs">
          <Told plan={trial.data} />
        </Alert>
      )}
    </Stack>
  );
}

/** The job with the priority that it would have: who would start, wait or be evicted at once. */
function Rank({ row }: { row: PriorityRequest }) {
  const t = useText(words);
  const trial = useMutation({ mutationFn: () => take(api.POST('/api/v1/what-if', { body: { changes: [{ rank: { job: row.job?.id, priority: row.priority } }], tenant: row.tenant.slug } })) });
  const found = trial.data;
  const groups = found
    ? ([
        ['wouldStart', found.starts],
        ['wouldNotStart', found.starts_not],
        ['wouldEvict', found.evicted],
      ] as const)
    : [];
  const isQuiet = groups.every(([, list]) => list.jobs.length + list.more + list.others === 0);
  return (
    <Stack gap="xs" aria-live="polite">
      <Group>
        <Button variant="default" size="xs" loading={trial.isPending} onClick={() => trial.mutate()} leftSection={<Icon name="search" size={14} />}>
          {t('whatWould')}
        </Button>
      </Group>
      {trial.error && <ProblemView error={trial.error} />}
      {found && (
        <Alert color="blue" py="xs">
          {isQuiet && <Text size="sm">{t('nothingAtOnce')}</Text>}
          {groups.map(([key, list]) => {
            const rest = list.more + list.others;
            return (
              list.jobs.length + rest > 0 && (
                <Text key={key} size="sm" style={{ overflowWrap: 'anywhere' }}>
                  <b>{t(key)}</b> {list.jobs.map((entry) => entry.job.name).join(', ')} {rest > 0 && t('andOthers', { count: rest })}
                </Text>
              )
            );
          })}
        </Alert>
      )}
    </Stack>
  );
}

/** A guarantee and a weight are never null; the description of what was asked does not say so. */
function numbers(values: Readonly<Record<string, number | null>>): { guarantee?: number; weight?: number } {
  return {
    ...(typeof values.guarantee === 'number' ? { guarantee: values.guarantee } : {}),
    ...(typeof values.weight === 'number' ? { weight: values.weight } : {}),
  };
}
