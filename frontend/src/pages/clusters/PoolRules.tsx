/** How a pool is filled, changed in place: what is left at its default is not said. */

import { MultiSelect, NumberInput, Select, TagsInput, Text, TextInput } from '@mantine/core';
import { useState } from 'react';

import { api, take } from '@/api/client';
import type { Pool } from '@/api/fleet';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Dialog, Form } from '@/ui/Dialog';
import { notify } from '@/ui/notify';
import { Said } from '@/ui/Said';

import { words } from './text';
import { readWeights, writeWeights } from './weights';

const POLICIES = ['fragmentation', 'pack', 'spread', 'ratio'] as const;
const LEVELS = ['island', 'switch', 'rack'] as const;

export function PoolRules({ pool }: { pool: Pool }) {
  const t = useText(words);
  const w = useText(common);
  const name = `${pool.cluster.name}/${pool.name}`;
  return (
    <Dialog label={w('edit')} title={t('editTitle', { name })} aria-label={`${w('edit')}: ${name}`} buttonSize="compact-sm" variant="default">
      {(close) => <Rules pool={pool} name={name} close={close} />}
    </Dialog>
  );
}

function Rules({ pool, name, close }: { pool: Pool; name: string; close: () => void }) {
  const t = useText(words);
  const w = useText(common);
  const { rules } = pool;
  const [ownName, setOwnName] = useState(pool.name);
  const [policy, setPolicy] = useState<string | null>(rules.policy ?? null);
  const [shares, setShares] = useState<string | null>(rules.gpu_shares === null || rules.gpu_shares === undefined ? null : String(rules.gpu_shares));
  const [sharedMax, setSharedMax] = useState<number | string>(rules.shared_devices_max ?? '');
  const [levels, setLevels] = useState<string[]>(rules.levels ?? []);
  const [weights, setWeights] = useState(() => writeWeights(rules.weights));
  const read = readWeights(weights);
  const save = async () => {
    await take(
      api.PATCH('/api/v1/pools/{pool_id}', {
        params: { path: { pool_id: pool.id } },
        headers: { 'If-Match': `"${pool.version}"` },
        body: {
          ...(ownName.trim() === pool.name ? {} : { name: ownName.trim() }),
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
  };
  return (
    <Form submit={save} onCancel={close} label={w('save')} isReady={read !== null && ownName.trim() !== ''}>
      {(at) => (
        <>
          <Text size="sm" c="dimmed">
            {t('editHint')}
          </Text>
          <TextInput label={w('name')} description={ownName.trim() === pool.name ? undefined : <Said text={t('renameHint', { name: pool.name })} />} value={ownName} maxLength={63} onChange={(event) => setOwnName(event.currentTarget.value)} error={at('/name')} spellCheck={false} required />
          <Select label={t('policy')} description={t('policyHint')} placeholder={t('byDefault')} clearable value={policy} onChange={setPolicy} data={POLICIES.map((value) => ({ value, label: `${t(value)} (${value})` }))} error={at('/policy')} />
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
            error={at('/gpu_shares')}
          />
          <NumberInput label={t('sharedMax')} placeholder={t('any')} min={0} allowDecimal={false} value={sharedMax} onChange={setSharedMax} error={at('/shared_devices_max')} />
          <MultiSelect label={t('levels')} placeholder={levels.length === 0 ? t('byDefault') : undefined} value={levels} onChange={setLevels} data={LEVELS.map((value) => ({ value, label: t(value) }))} error={at('/levels')} />
          <TagsInput label={t('weights')} description={t('weightsHint')} placeholder={weights.length === 0 ? t('byDefault') : undefined} value={weights} onChange={setWeights} error={read ? at('/weights') : t('weightsWrong')} />
        </>
      )}
    </Form>
  );
}
