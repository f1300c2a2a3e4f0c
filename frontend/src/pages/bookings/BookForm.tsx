/** Book GPUs: what is free all that time is told while one types. */

import { Alert, Group, NumberInput, Select, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take } from '@/api/client';
import { useTenantNames, type Pool } from '@/api/fleet';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Form } from '@/ui/Dialog';
import { Icon } from '@/ui/Icon';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { notify } from '@/ui/notify';
import { Window } from '@/ui/Window';

import { dateText, freeIn, type Booking } from './calendar';
import { words } from './text';

const HOURS_FIRST = 8;

export function BookDialog({ from, pools, pool, bookings, close }: { from: Date; pools: readonly Pool[]; pool: string | undefined; bookings: readonly Booking[]; close: (booked?: string) => void }) {
  const t = useText(words);
  return (
    <Window onClose={() => close()} title={t('book')} size="lg">
      <BookForm first={from} pools={pools} pool={pool} bookings={bookings} close={close} />
    </Window>
  );
}

function BookForm({ first, pools, pool: chosen, bookings, close }: { first: Date; pools: readonly Pool[]; pool: string | undefined; bookings: readonly Booking[]; close: (booked?: string) => void }) {
  const t = useText(words);
  const format = useFormat();
  const session = useSession();
  const managed = session.who.tenants.filter((found) => session.isOperator || session.may('manager', found.slug));
  const [pool, setPool] = useState<string | null>(chosen ?? pools[0]?.id ?? null);
  const [gpus, setGpus] = useState<number | string>(1);
  const [tenant, setTenant] = useState<string | null>(managed[0]?.slug ?? null);
  const [queue, setQueue] = useState<string | null>(null);
  const [starts, setStarts] = useState<TypedMoment>(() => first.toISOString());
  const [ends, setEnds] = useState<TypedMoment>(() => new Date(first.getTime() + HOURS_FIRST * 3_600_000).toISOString());
  const [comment, setComment] = useState('');
  const tenants = useTenantNames(session.isOperator);
  const queuesOf = useQuery({ queryKey: ['queues', 'choice', tenant], enabled: tenant !== null, queryFn: () => take(api.GET('/api/v1/queues', { params: { query: { tenant: tenant ?? '', limit: 500 } } })) });
  const choices = session.isOperator ? (tenants.data ?? managed) : managed;
  const isBackward = Boolean(starts && ends && starts >= ends);
  const total = pools.find((found) => found.id === pool)?.capacity.gpu_millis ?? 0;
  const free = pool && starts && ends && !isBackward ? Math.max(0, freeIn(bookings, pool, total, Date.parse(starts), Date.parse(ends))) : null;
  const wanted = Math.round(Number(gpus) * 1000);
  const isTooMany = free !== null && wanted > free;
  const submit = async () => {
    await api.POST('/api/v1/bookings', { body: { pool: pool ?? '', gpu_millis: wanted, tenant, queue, starts_at: starts ?? '', ends_at: ends ?? '', comment: comment.trim() } });
    notify(t('booked'));
    await queries.invalidateQueries({ queryKey: ['bookings'] });
    close(dateText(new Date(starts ?? '')));
  };
  return (
    <Form submit={submit} onCancel={() => close()} label={t('book')} isReady={pool !== null && tenant !== null && wanted > 0 && Boolean(starts && ends) && !isBackward}>
      {(at) => (
        <>
          <Group grow align="flex-start">
            <Select label={t('pool')} data={pools.map((found) => ({ value: found.id, label: `${found.cluster.name}/${found.name}` }))} value={pool} onChange={setPool} allowDeselect={false} error={at('/pool')} required />
            <NumberInput label={t('gpus')} min={0} max={total / 1000 || undefined} value={gpus} onChange={setGpus} error={at('/gpu_millis')} required data-autofocus />
          </Group>
          <Group grow align="flex-start">
            <Select
              label={t('tenant')}
              data={choices.map((found) => ({ value: found.slug, label: found.name }))}
              value={tenant}
              onChange={(value) => {
                setTenant(value);
                setQueue(null);
              }}
              allowDeselect={false}
              searchable
              error={at('/tenant')}
              required
            />
            <Select label={t('queue')} placeholder={queuesOf.data?.items.find((found) => found.is_top)?.name} data={(queuesOf.data?.items ?? []).map((found) => ({ value: found.id, label: found.path }))} value={queue} onChange={setQueue} clearable error={at('/queue')} />
          </Group>
          <Group grow align="flex-start">
            <MomentInput label={t('from')} value={starts} onChange={setStarts} error={at('/starts_at')} required />
            <MomentInput label={t('until')} value={ends} onChange={setEnds} error={isBackward ? t('endFirst') : at('/ends_at')} required />
          </Group>
          <Text size="xs" c="dimmed">
            {t('yourTime', { zone: format.zoneName })} {t('queueHint')}
          </Text>
          <TextInput label={t('comment')} value={comment} onChange={(event) => setComment(event.currentTarget.value)} error={at('/comment')} maxLength={1000} />
          <div aria-live="polite">
            {free !== null && (
              <Alert color={isTooMany ? 'orange' : 'teal'} icon={<Icon name={isTooMany ? 'alert' : 'check'} />} py="xs">
                {t(isTooMany ? 'tooMany' : 'seemsFree', { free: format.milli(free), total: format.milli(total) })} {!session.isOperator && t('othersToo')}
              </Alert>
            )}
          </div>
        </>
      )}
    </Form>
  );
}
