/** New prices of a pool from a moment on. What holds now stands beside each field. */

import { NumberInput, Select, Text } from '@mantine/core';
import { useState } from 'react';

import { api, take } from '@/api/client';
import { usePools } from '@/api/fleet';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { sayPrice } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Form, refuse } from '@/ui/Dialog';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { notify } from '@/ui/notify';
import { Window } from '@/ui/Window';

import { micros, type PoolPrices } from './ledger';
import { words } from './text';

const FIELDS = [
  { resource: 'gpu_millis', path: '/gpu_hour_micros' },
  { resource: 'cpu_millis', path: '/cpu_hour_micros' },
  { resource: 'memory_bytes', path: '/memory_gib_hour_micros' },
] as const;

export function NewPrice({ known, close }: { known: readonly PoolPrices[]; close: () => void }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const pools = usePools();
  const [pool, setPool] = useState<string | null>(known.length === 1 ? (known[0]?.id ?? null) : null);
  const [typed, setTyped] = useState<Record<string, number | string>>({});
  const [begins, setBegins] = useState<TypedMoment>('');
  const current = known.find((one) => one.id === pool)?.now;
  const save = async () => {
    const hasOne = Object.values(typed).some((value) => typeof value === 'number');
    refuse({ '/pool': !pool && t('needsPool'), '/gpu_hour_micros': !hasOne && t('needsOne') });
    const made = await take(
      api.POST('/api/v1/prices', {
        body: { pool: pool ?? '', gpu_hour_micros: micros(typed.gpu_millis ?? ''), cpu_hour_micros: micros(typed.cpu_millis ?? ''), memory_gib_hour_micros: micros(typed.memory_bytes ?? ''), effective_at: begins || null },
      }),
    );
    await queries.invalidateQueries({ queryKey: ['prices'] });
    notify(t('saved', { pool: made.items[0]?.pool?.name ?? '', time: format.time(made.items[0]?.effective_at) }));
    close();
  };
  return (
    <Window onClose={close} title={t('newTitle')}>
      <Form submit={save} onCancel={close} label={t('save')}>
        {(at) => (
          <>
            <Select label={w('pool')} required value={pool} onChange={setPool} data={(pools.data ?? []).map((one) => ({ value: one.id, label: `${one.cluster.name}/${one.name}` }))} error={at('/pool')} />
            <Text size="sm" c="dimmed">
              {t('leaveOut')}
            </Text>
            {FIELDS.map(({ resource, path }) => {
              const price = current?.[resource];
              return (
                <NumberInput
                  key={resource}
                  label={t(resource)}
                  description={price ? `${t('now')}: ${sayPrice(format, price.micros_per_hour, price.currency)}` : undefined}
                  min={0}
                  decimalScale={6}
                  value={typed[resource] ?? ''}
                  onChange={(value) => setTyped((before) => ({ ...before, [resource]: value }))}
                  error={at(path)}
                />
              );
            })}
            <MomentInput label={t('begins')} description={`${t('asSoon')} · ${t('times', { zone: format.zoneName })}`} value={begins} onChange={setBegins} error={at('/effective_at')} />
          </>
        )}
      </Form>
    </Window>
  );
}
