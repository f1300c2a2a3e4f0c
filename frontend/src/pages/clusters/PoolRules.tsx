/** How a pool is filled, changed in place: what is left at its default is not said. */

import { Button, Group, Modal, MultiSelect, NumberInput, Select, Stack, TagsInput, Text } from '@mantine/core';
import { useState } from 'react';

import { api, take } from '@/api/client';
import type { Pool } from '@/api/fleet';
import { asProblem } from '@/api/problem';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { ProblemView } from '@/ui/Feedback';
import { notify } from '@/ui/notify';

import { words } from './text';
import { readWeights, writeWeights } from './weights';

const POLICIES = ['fragmentation', 'pack', 'spread', 'ratio'] as const;
const LEVELS = ['island', 'switch', 'rack'] as const;

export function PoolRules({ pool }: { pool: Pool }) {
  const t = useText(words);
  const w = useText(common);
  const [isOpen, setOpen] = useState(false);
  const name = `${pool.cluster.name}/${pool.name}`;
  return (
    <>
      <Button size="compact-sm" variant="default" onClick={() => setOpen(true)} aria-label={`${w('edit')}: ${name}`}>
        {w('edit')}
      </Button>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={t('editTitle', { name })} closeButtonProps={{ 'aria-label': w('close') }}>
        {isOpen && <Form pool={pool} name={name} close={() => setOpen(false)} />}
      </Modal>
    </>
  );
}

function Form({ pool, name, close }: { pool: Pool; name: string; close: () => void }) {
  const t = useText(words);
  const w = useText(common);
  const { rules } = pool;
  const [policy, setPolicy] = useState<string | null>(rules.policy ?? null);
  const [shares, setShares] = useState<string | null>(rules.gpu_shares === null || rules.gpu_shares === undefined ? null : String(rules.gpu_shares));
  const [sharedMax, setSharedMax] = useState<number | string>(rules.shared_devices_max ?? '');
  const [levels, setLevels] = useState<string[]>(rules.levels ?? []);
  const [weights, setWeights] = useState(() => writeWeights(rules.weights));
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const read = readWeights(weights);
  const problem = error === null ? null : asProblem(error);
  const save = async () => {
    if (!read) return;
    setBusy(true);
    setError(null);
    try {
      await take(
        api.PATCH('/api/v1/pools/{pool_id}', {
          params: { path: { pool_id: pool.id } },
          headers: { 'If-Match': `"${pool.version}"` },
          body: {
            policy: POLICIES.find((one) => one === policy) ?? null,
            gpu_shares: shares === null ? null : shares === 'true',
            shared_devices_max: typeof sharedMax === 'number' ? sharedMax : null,
            levels: levels.length === 0 ? null : LEVELS.filter((level) => levels.includes(level)),
            weights: weights.length === 0 ? null : read,
          },
        }),
      );
      await queries.invalidateQueries({ queryKey: ['pools'] });
      notify(t('changed', { name }));
      close();
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack>
      <Text size="sm" c="dimmed">
        {t('editHint')}
      </Text>
      <Select label={t('policy')} description={t('policyHint')} placeholder={t('byDefault')} clearable value={policy} onChange={setPolicy} data={POLICIES.map((value) => ({ value, label: `${t(value)} (${value})` }))} error={problem?.at('/policy')} data-autofocus />
      <Select
        label={t('gpuShares')}
        placeholder={t('byDefault')}
        clearable
        value={shares}
        onChange={setShares}
        data={[
          { value: 'true', label: w('yes') },
          { value: 'false', label: w('no') },
        ]}
        error={problem?.at('/gpu_shares')}
      />
      <NumberInput label={t('sharedMax')} placeholder={t('any')} min={0} allowDecimal={false} value={sharedMax} onChange={setSharedMax} error={problem?.at('/shared_devices_max')} />
      <MultiSelect label={t('levels')} placeholder={levels.length === 0 ? t('byDefault') : undefined} value={levels} onChange={setLevels} data={LEVELS.map((value) => ({ value, label: t(value) }))} error={problem?.at('/levels')} />
      <TagsInput label={t('weights')} description={t('weightsHint')} placeholder={weights.length === 0 ? t('byDefault') : undefined} value={weights} onChange={setWeights} error={read ? problem?.at('/weights') : t('weightsWrong')} />
      {problem && <ProblemView error={problem} />}
      <Group justify="flex-end">
        <Button variant="default" onClick={close}>
          {w('cancel')}
        </Button>
        <Button loading={isBusy} disabled={!read} onClick={() => void save()}>
          {w('save')}
        </Button>
      </Group>
    </Stack>
  );
}
