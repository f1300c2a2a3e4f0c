/** Draining a node: first the list of who has to go, then just that, or the new list if others run there by then. */

import { Alert, Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import type { FleetNode } from '@/api/fleet';
import { asProblem } from '@/api/problem';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { Window } from '@/ui/Window';

import { Affected } from './Affected';
import { words } from './text';

export function Drain({ node }: { node: FleetNode }) {
  const t = useText(words);
  const w = useText(common);
  const [isOpen, setOpen] = useState(false);
  const [reason, setReason] = useState('');
  const [plan, setPlan] = useState<Schemas['DrainOut'] | null>(null);
  const [hasChanged, setChanged] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);

  const look = async () => {
    setBusy(true);
    setError(null);
    try {
      setPlan(await take(api.POST('/api/v1/nodes/{node_id}/drain', { params: { path: { node_id: node.id }, query: { dry_run: true } }, body: { reason: '' } })));
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  const open = () => {
    setOpen(true);
    setPlan(null);
    setChanged(false);
    void look();
  };
  const go = async () => {
    if (!plan) return;
    setBusy(true);
    setError(null);
    try {
      await take(api.POST('/api/v1/nodes/{node_id}/drain', { params: { path: { node_id: node.id }, query: { plan: plan.plan } }, body: { reason } }));
      setOpen(false);
      notify(t('drainStarted', { name: node.name }));
      await Promise.all([queries.invalidateQueries({ queryKey: ['node', node.id] }), queries.invalidateQueries({ queryKey: ['nodes'] })]);
    } catch (problem) {
      if (asProblem(problem).code === 'plan_changed') {
        setChanged(true);
        await look();
      } else setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button color="red" variant="light" aria-haspopup="dialog" onClick={open}>
        {t('drain')}
      </Button>
      <Window opened={isOpen} onClose={() => setOpen(false)} title={t('drainTitle', { name: node.name })} size="lg">
        <Stack>
          {hasChanged && (
            <Alert color="yellow" icon={<Icon name="alert" />} role="alert">
              {t('planChanged')}
            </Alert>
          )}
          {plan ? (
            plan.jobs.length === 0 ? (
              <Text>{t('drainNobody')}</Text>
            ) : (
              <>
                <Text size="sm">{t('drainHint')}</Text>
                <Affected jobs={plan.jobs} />
              </>
            )
          ) : (
            error === null && <Loading lines={3} />
          )}
          <TextInput label={w('reason')} description={t('reasonHint')} value={reason} onChange={(event) => setReason(event.currentTarget.value)} maxLength={200} />
          {error !== null && <ProblemView error={error} retry={() => void look()} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={() => setOpen(false)}>
              {w('cancel')}
            </Button>
            <Button color="red" disabled={!plan} loading={isBusy && plan !== null} onClick={() => void go()}>
              {t('drainGo', { count: plan?.jobs.length ?? 0 })}
            </Button>
          </Group>
        </Stack>
      </Window>
    </>
  );
}
