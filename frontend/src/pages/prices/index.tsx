/** Prices: what holds, what is to come, what was; new ones; and what something would cost. */

import { Button, Card, Group, NumberInput, Select, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { readAll, usePools } from '@/api/fleet';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { sayMoney, sayPrice } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { byPool, isResource, RESOURCES, type PoolPrices, type Price } from './ledger';
import { NewPrice } from './NewPrice';
import { words } from './text';

const LOOK = { now: { icon: 'check', color: 'teal' }, planned: { icon: 'clock', color: 'blue' }, past: { icon: 'stop', color: 'gray' } } as const;

export default function Prices() {
  const t = useText(words);
  const session = useSession();
  const prices = useQuery({ queryKey: ['prices'], queryFn: ({ signal }) => readAll((page) => take(api.GET('/api/v1/prices', { params: { query: { ...page, all: true } }, signal }))) });
  const pools = useMemo(() => byPool(prices.data ?? []), [prices.data]);
  const [isNew, setNew] = useState(false);
  const add = session.isOperator && (
    <Button leftSection={<Icon name="submit" size={16} />} aria-haspopup="dialog" onClick={() => setNew(true)}>
      {t('newPrice')}
    </Button>
  );
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <>
          <CopyAs ways={{ cli: 'berth prices list --all\nberth prices set a100 --gpu 2.50', curl: `${curl('GET', '/prices?all=true')}\n\n${curl('POST', '/prices', { pool: 'a100', gpu_hour_micros: 2_500_000 })}`, python: 'import berth\n\nclient = berth.Client()\nfor price in client.request("GET", "/prices")["items"]:\n    print(price["pool"]["name"], price["resource"], price["micros_per_hour"] / 1e6)' }} />
          {(session.isOperator || session.may('manager')) && (
            <Button component={Link} to="/usage?tab=breakeven" variant="default">
              {t('breakeven')}
            </Button>
          )}
          {add}
        </>
      }
    >
      <Answer query={prices} lines={6}>
        {(all) =>
          all.length === 0 ? (
            <Empty icon="prices" title={t('free')} action={add} command={session.isOperator ? 'berth prices set POOL --gpu 2.50' : undefined}>
              {t('freeHint')}
            </Empty>
          ) : (
            <>
              {pools.map((pool) => (
                <PoolCard key={pool.id} pool={pool} />
              ))}
              <Estimate />
            </>
          )
        }
      </Answer>
      {isNew && <NewPrice known={pools} close={() => setNew(false)} />}
    </Page>
  );
}

function PoolCard({ pool }: { pool: PoolPrices }) {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const { isOperator } = useSession();
  const [isAll, setAll] = useState(false);
  const rows: Price[] = [...pool.planned, ...RESOURCES.flatMap((resource) => pool.now[resource] ?? []), ...(isAll ? pool.past : [])];
  const withdraw = async (id: string) => {
    await take(api.DELETE('/api/v1/prices/{price_id}', { params: { path: { price_id: id } } }));
    await queries.invalidateQueries({ queryKey: ['prices'] });
  };
  return (
    <Card withBorder component="section" aria-label={pool.name}>
      <Title order={2} size="h4">
        {pool.name}
      </Title>
      <SimpleGrid cols={{ base: 1, xs: 3 }} my="sm">
        {RESOURCES.map((resource) => {
          const price = pool.now[resource];
          return (
            <div key={resource}>
              <Text size="sm" c="dimmed">
                {t(resource)}
              </Text>
              <Text size="xl" fw={650}>
                {price ? sayPrice(format, price.micros_per_hour, price.currency) : t('none')}
              </Text>
            </div>
          );
        })}
      </SimpleGrid>
      <Table.ScrollContainer minWidth={560}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{w('state')}</Table.Th>
              <Table.Th>{t('resource')}</Table.Th>
              <Table.Th ta="right">{t('price')}</Table.Th>
              <Table.Th>{t('from')}</Table.Th>
              <Table.Th>{t('by')}</Table.Th>
              {isOperator && <Table.Th>{w('actions')}</Table.Th>}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((price) => (
              <Table.Tr key={price.id}>
                <Table.Td>
                  <Mark icon={LOOK[price.state].icon} color={LOOK[price.state].color} label={t(price.state)} size="sm" />
                </Table.Td>
                <Table.Td>{isResource(price.resource) ? t(price.resource) : price.resource}</Table.Td>
                <Table.Td ta="right">{sayPrice(format, price.micros_per_hour, price.currency)}</Table.Td>
                <Table.Td>
                  {format.time(price.effective_at)}{' '}
                  <Text span size="xs" c="dimmed">
                    (<When at={price.effective_at} size="xs" />)
                  </Text>
                </Table.Td>
                <Table.Td>{price.created_by?.name ?? '–'}</Table.Td>
                {isOperator && (
                  <Table.Td>
                    {price.state === 'planned' && (
                      <Confirm size="compact-sm" variant="light" color="red" label={t('withdraw')} title={t('withdrawTitle')} act={() => withdraw(price.id)}>
                        {t('withdrawHint')}
                      </Confirm>
                    )}
                  </Table.Td>
                )}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {pool.past.length > 0 && (
        <Group mt="xs">
          <Button size="compact-sm" variant="subtle" aria-pressed={isAll} onClick={() => setAll(!isAll)}>
            {isAll ? t('current') : `${t('history', { pool: pool.name })} (${pool.past.length})`}
          </Button>
        </Group>
      )}
    </Card>
  );
}

const FIELDS = [
  { name: 'gpus', word: 'estimateGpus', usual: 8 },
  { name: 'cores', word: 'estimateCores', usual: 64 },
  { name: 'gib', word: 'estimateMemory', usual: 512 },
  { name: 'hours', word: 'estimateHours', usual: 24 },
] as const;

/** What something would cost in each pool. What is asked stands in the address. */
function Estimate() {
  const t = useText(words);
  const w = useText(common);
  const format = useFormat();
  const pools = usePools();
  const [search, put] = useAddress();
  const value = (name: string, usual: number) => {
    const text = search.get(name);
    return text !== null && Number.isFinite(Number(text)) && Number(text) >= 0 ? Number(text) : usual;
  };
  const [gpus, cores, gib, hours] = FIELDS.map(({ name, usual }) => value(name, usual)) as [number, number, number, number];
  const pool = search.get('pool');
  const [asked] = useDebouncedValue(JSON.stringify({ gpu_millis: Math.round(gpus * 1000), cpu_millis: Math.round(cores * 1000), memory_bytes: Math.round(gib * 1024 ** 3), seconds: Math.max(1, Math.round(hours * 3600)), ...(pool ? { pool } : {}) }), 250);
  const estimate = useQuery({
    queryKey: ['prices', 'estimate', asked],
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => take(api.GET('/api/v1/prices:estimate', { params: { query: JSON.parse(asked) as { gpu_millis: number; pool?: string } }, signal })),
  });
  return (
    <section aria-labelledby="estimate">
      <Title order={2} size="h4" id="estimate" mb="xs">
        {t('estimate')}
      </Title>
      <Stack>
        <SimpleGrid cols={{ base: 2, sm: 5 }}>
          {FIELDS.map(({ name, word, usual }) => (
            <NumberInput key={name} label={t(word)} min={0} value={value(name, usual)} onChange={(typed) => typeof typed === 'number' && put({ [name]: String(typed) })} />
          ))}
          <Select label={w('pool')} placeholder={w('all')} clearable value={pool} onChange={(chosen) => put({ pool: chosen })} data={(pools.data ?? []).map((one) => ({ value: one.id, label: `${one.cluster.name}/${one.name}` }))} />
        </SimpleGrid>
        <Answer query={estimate} lines={2}>
          {(found) => (
            <Table maw={640}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{w('pool')}</Table.Th>
                  <Table.Th ta="right">{t('perHour')}</Table.Th>
                  <Table.Th ta="right">{t('altogether')}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {found.items.map((item) => (
                  <Table.Tr key={item.pool.id}>
                    <Table.Td>
                      {item.pool.cluster}/{item.pool.name}
                    </Table.Td>
                    <Table.Td ta="right">{sayPrice(format, item.micros_per_hour, found.currency)}</Table.Td>
                    <Table.Td ta="right">{sayMoney(format, item.micros, found.currency)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          )}
        </Answer>
      </Stack>
    </section>
  );
}
