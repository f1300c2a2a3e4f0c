/** Whether owning the GPUs pays, by the hours that were really used. What is assumed stands in fields, and in the address. */

import { Alert, NativeSelect, NumberInput, SimpleGrid, Stack, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import { useSearchParams } from 'react-router';

import { api, take } from '@/api/client';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { sayMoney } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Answer, Loading } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';

import { words } from './text';

const Curve = lazy(() => import('./Curve'));
/** What can be changed: the name in the API, whether it is money (in millionths), its word. */
const FIELDS = [
  { name: 'gpus', isMoney: false, word: 'gpus' },
  { name: 'capex_micros', isMoney: true, word: 'capex' },
  { name: 'rent_micros_per_gpu_hour', isMoney: true, word: 'rent' },
  { name: 'lifetime_months', isMoney: false, word: 'lifetime' },
  { name: 'staff_micros_per_month', isMoney: true, word: 'staff' },
  { name: 'site_micros_per_month', isMoney: true, word: 'site' },
  { name: 'kwh_micros', isMoney: true, word: 'kwh' },
] as const;

export default function Breakeven() {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const [search, setSearch] = useSearchParams();
  const asked = Object.fromEntries(FIELDS.flatMap(({ name }) => (search.has(name) && /^\d+$/.test(search.get(name) ?? '') ? [[name, Number(search.get(name))]] : []))) as Partial<Record<(typeof FIELDS)[number]['name'], number>>;
  const session = useSession();
  // All tenants together are for operators; a manager sees those that are managed, one at a time.
  const managed = session.who.tenants.filter((each) => session.may('manager', each.slug));
  const tenant = search.get('tenant') ?? (session.isOperator ? '' : (managed[0]?.slug ?? ''));
  const [sent] = useDebouncedValue(JSON.stringify({ ...asked, ...(tenant ? { tenant } : {}) }), 300);
  const answer = useQuery({ queryKey: ['usage', 'breakeven', sent], placeholderData: keepPreviousData, queryFn: ({ signal }) => take(api.GET('/api/v1/breakeven', { params: { query: JSON.parse(sent) as typeof asked & { tenant?: string } }, signal })) });
  const query = new URLSearchParams(Object.entries({ ...asked, ...(tenant ? { tenant } : {}) }).map(([name, value]) => [name, String(value)])).toString();
  return (
    <Answer query={answer} lines={8}>
      {(found) => (
        <Stack>
          <Text size="sm" c="dimmed">
            {t('breakevenHint')}
          </Text>
          <Alert color={found.crossover_month === null ? 'yellow' : 'teal'} icon={<Icon name={found.crossover_month === null ? 'info' : 'check'} />} title={found.crossover_month === null ? t('noCrossover') : t('crossover', { month: found.crossover_month })}>
            {t('useNow', { used: format.number(found.gpu_milli_hours_per_month / 1000), percent: format.percent(found.use_percent / 100) })}
            {found.use_percent_needed !== null && ` ${t('useNeeded', { percent: format.percent(found.use_percent_needed / 100) })}`}
          </Alert>
          {(session.isOperator || managed.length > 1) && (
            <NativeSelect
              label={c('tenant')}
              maw={320}
              value={tenant}
              data={[...(session.isOperator ? [{ value: '', label: c('all') }] : []), ...managed.map((each) => ({ value: each.slug, label: each.name }))]}
              onChange={(event) => {
                const chosen = event.currentTarget.value;
                setSearch((now) => {
                  const next = new URLSearchParams(now);
                  if (chosen) next.set('tenant', chosen);
                  else next.delete('tenant');
                  return next;
                });
              }}
            />
          )}
          <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }}>
            {FIELDS.map(({ name, isMoney, word }) => (
              <NumberInput
                key={name}
                label={t(word)}
                min={0}
                thousandSeparator=" "
                suffix={isMoney ? ` ${found.currency}` : undefined}
                value={(asked[name] ?? found.assumptions[name] ?? 0) / (isMoney ? 1e6 : 1)}
                onChange={(value) => {
                  if (typeof value !== 'number') return;
                  setSearch((before) => {
                    before.set('tab', 'breakeven');
                    before.set(name, String(Math.round(value * (isMoney ? 1e6 : 1))));
                    return before;
                  }, { replace: true });
                }}
              />
            ))}
          </SimpleGrid>
          <Suspense fallback={<Loading lines={6} />}>
            <Curve
              title={t('monthAxis')}
              months={found.curve.map((point) => point.month)}
              sayMonth={(month) => t('months', { n: month })}
              sayMoney={(micros) => sayMoney(format, micros, found.currency)}
              lines={[
                { label: t('ownCurve'), values: found.curve.map((point) => point.own_micros) },
                { label: t('rentCurve'), values: found.curve.map((point) => point.rent_micros) },
              ]}
            />
          </Suspense>
          <div>
            <CopyAs ways={{ cli: 'berth breakeven', curl: curl('GET', `/breakeven${query ? `?${query}` : ''}`), python: `import berth\n\nclient = berth.Client()\nprint(client.request("GET", "/breakeven", params=${JSON.stringify(asked)})["crossover_month"])` }} />
          </div>
        </Stack>
      )}
    </Answer>
  );
}
