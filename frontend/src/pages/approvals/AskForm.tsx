/** Ask for a higher priority: for a job, or for all that a person submits for a while. */

import { SegmentedControl, Select, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';

import { api } from '@/api/client';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Form } from '@/ui/Dialog';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { notify } from '@/ui/notify';

import { words } from './text';

const CLASSES = ['normal', 'high', 'urgent'] as const;
const HOURS_FIRST = 12;

export function AskForm({ close, job: known = '' }: { close: () => void; job?: string }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const session = useSession();
  const tenants = session.who.tenants.filter((tenant) => session.may('member', tenant.slug));
  const [kind, setKind] = useState<'job' | 'while'>('job');
  const [job, setJob] = useState(known);
  const [priority, setPriority] = useState<(typeof CLASSES)[number]>('high');
  const [tenant, setTenant] = useState(tenants[0]?.slug ?? '');
  const [user, setUser] = useState('');
  const [from, setFrom] = useState<TypedMoment>('');
  const [until, setUntil] = useState<TypedMoment>(() => new Date(Math.floor(Date.now() / 60_000) * 60_000 + HOURS_FIRST * 3_600_000).toISOString());
  const [reason, setReason] = useState('');
  const submit = async () => {
    await api.POST('/api/v1/priority-requests', {
      body:
        kind === 'job'
          ? { job: job.trim(), priority, reason: reason.trim() }
          : { tenant, priority, reason: reason.trim(), ...(user.trim() ? { user: user.trim() } : {}), ...(from ? { starts_at: from } : {}), ends_at: until || null },
    });
    notify(t('asked'));
    await queries.invalidateQueries({ queryKey: ['priority_requests'] });
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={t('ask')} isReady={kind === 'while' || job.trim() !== ''}>
      {(at) => (
        <>
          <SegmentedControl
            aria-label={t('what')}
            value={kind}
            onChange={(value) => setKind(value as 'job' | 'while')}
            data={[
              { value: 'job', label: t('job') },
              { value: 'while', label: t('while') },
            ]}
          />
          {kind === 'job' && <TextInput label={t('jobName')} description={t('jobHint')} value={job} onChange={(event) => setJob(event.currentTarget.value)} error={at('/job')} required data-autofocus />}
          <Select label={t('class')} data={CLASSES.map((value) => ({ value, label: t(value) }))} value={priority} onChange={(value) => value && setPriority(value as 'high')} allowDeselect={false} error={at('/priority')} />
          {kind === 'while' && (
            <>
              <Select label={c('tenant')} data={tenants.map((found) => ({ value: found.slug, label: found.name }))} value={tenant} onChange={(value) => value && setTenant(value)} allowDeselect={false} error={at('/tenant')} />
              {session.may('manager', tenant) && <TextInput label={t('person')} description={t('personHint')} value={user} onChange={(event) => setUser(event.currentTarget.value)} error={at('/user')} />}
              <MomentInput label={t('from')} description={t('inZone', { zone: format.zoneName })} value={from} onChange={setFrom} error={at('/starts_at')} />
              <MomentInput label={t('until')} value={until} onChange={setUntil} error={at('/ends_at')} required />
            </>
          )}
          <Textarea label={t('reason')} description={t('reasonHint')} value={reason} onChange={(event) => setReason(event.currentTarget.value)} error={at('/reason')} autosize minRows={2} />
        </>
      )}
    </Form>
  );
}
