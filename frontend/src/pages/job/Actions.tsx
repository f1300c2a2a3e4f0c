/** What can be done with a job by whoever looks at it: stop, rerun, clone, its place in the order. Nothing else is offered. */

import { Button, Group, NumberInput, SegmentedControl, Stack, Switch, Text } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { stopSaid, stopWords } from '@/text/stopSaid';
import { Confirm } from '@/ui/Confirm';
import { Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { StopReason } from '@/ui/StopReason';
import { Window } from '@/ui/Window';

import { hasEnded, isArray, type Job, type Rights } from './queries';
import { words } from './text';

const Rerun = lazy(() => import('./Rerun'));

export function Actions({ job, rights }: { job: Job; rights: Rights }) {
  const t = useText(words);
  return (
    <>
      {rights.edit && !hasEnded(job) && <Stop job={job} />}
      {rights.edit && job.state === 'queued' && <Order job={job} mayManage={rights.manage} />}
      {rights.rerun && !job.parent_id && <RerunButton job={job} />}
      {rights.rerun && (
        <Button component={Link} to={`/submit?from=${job.id}`} variant="default" leftSection={<Icon name="copy" size={16} />}>
          {t('clone')}
        </Button>
      )}
    </>
  );
}

function reread(job: Job): void {
  void queries.invalidateQueries({ queryKey: ['job', job.id] });
  void queries.invalidateQueries({ queryKey: ['jobs'] });
}

function Stop({ job }: { job: Job }) {
  const t = useText(words);
  const s = useText(stopWords);
  const c = useText(common);
  const [grace, setGrace] = useState<number | string>('');
  const [reason, setReason] = useState('');
  const stop = async () => {
    const after = await take(api.POST('/api/v1/jobs/{job}/stop', { params: { path: { job: job.id } }, body: { grace_seconds: typeof grace === 'number' ? grace : undefined, reason: reason.trim() || undefined } }));
    notify(s(stopSaid(after), { state: c(after.state) }));
    reread(job);
  };
  const isWaiting = job.state === 'queued';
  return (
    <Confirm label={t('stop')} title={t('stopTitle', { name: job.name })} act={stop} color="red" variant="light" leftSection={<Icon name="stop" size={16} />}>
      <Stack>
        <Text>{isArray(job) ? t('stopArray') : isWaiting ? t('stopWaiting') : t('stopText')}</Text>
        <StopReason value={reason} change={setReason} />
        {!isWaiting && <NumberInput label={t('stopGrace')} description={t('stopGraceHint')} min={0} max={3600} value={grace} onChange={setGrace} />}
      </Stack>
    </Confirm>
  );
}

function RerunButton({ job }: { job: Job }) {
  const t = useText(words);
  const [isOpen, setOpen] = useState(false);
  const [draft, setDraft] = useState<string | null>(null); // What was typed outlives the window: it closes at a press of Escape.
  return (
    <>
      <Button variant="default" leftSection={<Icon name="refresh" size={16} />} aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {t('rerun')}
      </Button>
      <Window opened={isOpen} onClose={() => setOpen(false)} title={t('rerunTitle', { name: job.name })} size="xl">
        <Suspense fallback={<Loading />}>{isOpen && <Rerun job={job} draft={draft} keep={setDraft} close={() => setOpen(false)} />}</Suspense>
      </Window>
    </>
  );
}

function Order({ job, mayManage }: { job: Job; mayManage: boolean }) {
  const t = useText(words);
  const [isOpen, setOpen] = useState(false);
  const [priority, setPriority] = useState<number | string>(job.priority);
  const [among, setAmong] = useState<'own' | 'queue'>('own');
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async (act: () => Promise<string>) => {
    setBusy(true);
    setError(null);
    try {
      notify(await act());
      reread(job);
    } catch (refused) {
      setError(refused);
    } finally {
      setBusy(false);
    }
  };
  const edit = (body: { priority?: number; hold?: boolean; retry_now?: boolean }) => take(api.PATCH('/api/v1/jobs/{job}', { params: { path: { job: job.id } }, body }));
  const move = (to: 'first' | 'last') =>
    run(async () => {
      const answer = await take(api.POST('/api/v1/jobs/{job}/move', { params: { path: { job: job.id } }, body: { to, among } }));
      return t('moved', { count: answer.moved });
    });
  return (
    <>
      <Button variant="default" leftSection={<Icon name="queues" size={16} />} aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {t('order')}
      </Button>
      <Window opened={isOpen} onClose={() => setOpen(false)} title={t('orderTitle', { name: job.name })}>
        <Stack>
          {error !== null && <ProblemView error={error} />}
          <NumberInput label={t('priority')} description={t('priorityHint')} min={0} max={1000} value={priority} onChange={setPriority} allowDecimal={false} />
          <Group>
            <Button
              loading={isBusy}
              disabled={typeof priority !== 'number' || priority === job.priority}
              onClick={() => void run(async () => t('prioritySet', { priority: (await edit({ priority: Number(priority) })).priority }))}
            >
              {t('setPriority')}
            </Button>
          </Group>
          <Switch label={t('hold')} description={t('holdHint')} checked={job.hold} disabled={isBusy} onChange={(event) => {
            const hold = event.currentTarget.checked;
            void run(async () => {
              await edit({ hold });
              return t('hold');
            });
          }} />
          {job.attempt > 0 && job.not_before_at !== null && new Date(job.not_before_at) > new Date() && (
            <Group>
              <Button
                variant="default"
                loading={isBusy}
                onClick={() =>
                  void run(async () => {
                    await edit({ retry_now: true });
                    return t('retriedNow');
                  })
                }
              >
                {t('retryNow')}
              </Button>
              <Text size="sm" c="dimmed">
                {t('retryNowHint')}
              </Text>
            </Group>
          )}
          <Text fw={500} size="sm">
            {t('place')}
          </Text>
          {mayManage && (
            <SegmentedControl
              aria-label={t('among')}
              value={among}
              onChange={(value) => setAmong(value === 'queue' ? 'queue' : 'own')}
              data={[
                { value: 'own', label: t('amongOwn') },
                { value: 'queue', label: t('amongQueue') },
              ]}
            />
          )}
          <Group>
            <Button variant="default" loading={isBusy} onClick={() => void move('first')}>
              {t('toFirst')}
            </Button>
            <Button variant="default" loading={isBusy} onClick={() => void move('last')}>
              {t('toLast')}
            </Button>
          </Group>
        </Stack>
      </Window>
    </>
  );
}
