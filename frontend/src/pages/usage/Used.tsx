/** What was used: by whom, where, when, and which part of it was waste. */

import { Anchor, Button, Card, Group, Progress, Select, SimpleGrid, Stack, Table, Text, TextInput, Title } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useMemo, useState, type ReactNode } from 'react';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { usePools } from '@/api/fleet';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { gibHours, sayHours, sayMoney } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Answer, Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';

import { busyShare, byDay, hasCost, sum, type Item } from './money';
import { RANGES, windowOf } from './range';
import { words } from './text';

const Chart = lazy(() => import('@/ui/Chart').then((module) => ({ default: module.Chart })));
const GROUPS = ['tenant', 'user', 'queue', 'pool', 'job', 'fate'] as const;
const GROUP_WORDS = { tenant: 'byTenant', user: 'byUser', queue: 'byQueue', pool: 'byPool', job: 'byJob', fate: 'byFate' } as const;
const FATE_LOOK = { useful: 'teal', failed: 'red', retried: 'orange', evicted: 'yellow', stopped: 'gray' } as const;
type Fate = keyof typeof FATE_LOOK;
const PAGE = 100;
const DAYS_MAX = 500;

export default function Used() {
  const t = useText(words);
  const w = useText(common);
  const session = useSession();
  const [search, put] = useAddress();
  const [now] = useState(() => Date.now());
  const range = windowOf(search, now);
  const by = GROUPS.find((one) => one === search.get('by')) ?? (session.isOperator || session.who.tenants.length > 1 ? 'tenant' : 'user');
  const filters = { since: range.since, until: range.until, tenant: search.get('tenant') ?? undefined, pool: search.get('pool') ?? undefined, user: search.get('user') || undefined, queue: search.get('queue') || undefined };
  const groups = useInfiniteQuery({
    queryKey: ['usage', 'groups', by, filters],
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: { next: string | null }) => page.next ?? undefined,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam, signal }) => take(api.GET('/api/v1/usage', { params: { query: { ...filters, group_by: by, limit: PAGE, cursor: pageParam } }, signal })),
  });
  const days = useQuery({ queryKey: ['usage', 'day', filters], placeholderData: keepPreviousData, queryFn: ({ signal }) => take(api.GET('/api/v1/usage', { params: { query: { ...filters, group_by: 'day', limit: DAYS_MAX } }, signal })) });
  const fates = useQuery({ queryKey: ['usage', 'fate', filters], placeholderData: keepPreviousData, queryFn: ({ signal }) => take(api.GET('/api/v1/usage', { params: { query: { ...filters, group_by: 'fate' } }, signal })) });
  const held = useQuery({ queryKey: ['usage', 'held', filters], placeholderData: keepPreviousData, queryFn: ({ signal }) => take(api.GET('/api/v1/usage:held', { params: { query: filters }, signal })) });
  const pools = usePools();
  const items = useMemo(() => groups.data?.pages.flatMap((page) => page.items) ?? [], [groups.data]);
  const isBilled = session.has('billing') && (hasCost(items) || hasCost(fates.data?.items ?? []));
  const currency = groups.data?.pages[0]?.currency ?? '';
  const query = new URLSearchParams(Object.entries(filters).filter((entry): entry is [string, string] => entry[1] !== undefined)).toString();
  return (
    <Stack gap="lg">
      <Group align="flex-end">
        <Select label={t('range')} w={140} allowDeselect={false} value={range.name} onChange={(value) => put({ range: value === 'month' ? '' : (value ?? '') })} data={RANGES.map((name) => ({ value: name, label: t(name) }))} />
        {range.name === 'own' && (
          <>
            <TextInput type="date" label={w('from')} value={search.get('since') ?? ''} onChange={(event) => put({ since: event.currentTarget.value })} />
            <TextInput type="date" label={w('until')} value={search.get('until') ?? ''} onChange={(event) => put({ until: event.currentTarget.value })} />
          </>
        )}
        {session.who.tenants.length > 1 && <Select label={w('tenant')} placeholder={t('allTenants')} clearable searchable w={170} value={search.get('tenant')} onChange={(value) => put({ tenant: value ?? '' })} data={session.who.tenants.map((tenant) => ({ value: tenant.slug, label: tenant.name }))} />}
        <Select label={w('pool')} placeholder={t('allPools')} clearable w={170} value={search.get('pool')} onChange={(value) => put({ pool: value ?? '' })} data={(pools.data ?? []).map((pool) => ({ value: pool.id, label: `${pool.cluster.name}/${pool.name}` }))} />
        <Select label={t('by')} w={170} allowDeselect={false} value={by} onChange={(value) => put({ by: value ?? '' })} data={GROUPS.map((name) => ({ value: name, label: t(GROUP_WORDS[name]) }))} />
        <Group gap="xs" ml="auto">
          <Button component="a" href={`/api/v1/usage:export?${query}`} download="usage.csv" variant="default" leftSection={<Icon name="download" size={16} />}>
            {t('export')}
          </Button>
          <CopyAs
            ways={{
              cli: `berth usage --by ${by}${filters.since ? ` --since ${filters.since.slice(0, 10)}` : ''}${filters.pool ? ` --pool ${quote(filters.pool)}` : ''}${filters.tenant ? ` -t ${quote(filters.tenant)}` : ''}`,
              curl: curl('GET', `/usage?group_by=${by}${query ? `&${query}` : ''}`),
              python: `import berth\n\nclient = berth.Client()\nfor row in client.usage(group_by="${by}"):\n    print(row["name"], row["gpu_milli_seconds"] / 3_600_000)`,
            }}
          />
        </Group>
      </Group>
      {groups.error && items.length === 0 ? (
        <ProblemView error={groups.error} retry={() => void groups.refetch()} />
      ) : groups.isPending ? (
        <Loading lines={8} />
      ) : items.length === 0 ? (
        <Empty icon="usage" title={t('empty')} command="berth usage --since 30d">
          {t('emptyHint')}
        </Empty>
      ) : (
        <>
          <Answer query={days} lines={6}>
            {(answer) => (
              <Suspense fallback={<Loading lines={6} />}>
                <Days items={answer.items} since={range.since} isBilled={isBilled} currency={currency} />
              </Suspense>
            )}
          </Answer>
          <SimpleGrid cols={{ base: 1, md: 2, xl: 3 }}>
            <Answer query={fates} lines={5}>
              {(answer) => <Fates items={answer.items} isBilled={isBilled} currency={currency} />}
            </Answer>
            {(fates.data?.items ?? []).some((item) => item.gpu_milli_seconds > 0) && <Busy items={fates.data?.items ?? []} />}
            <Answer query={held} lines={5}>
              {(answer) => (
                <Split title={t('heldTitle')} hint={t('heldHint')} empty={t('nothingHeld')}>
                  {answer.items.map((item) => (
                    <Table.Tr key={`${item.tenant.id}${item.kind}`}>
                      <Table.Td>{item.tenant.name ?? '–'}</Table.Td>
                      <Table.Td>{t(item.kind)}</Table.Td>
                      <Hours gpu={item.gpu_milli_seconds} cpu={item.cpu_milli_seconds} />
                      {isBilled && <Cost micros={item.micros} currency={currency} />}
                    </Table.Tr>
                  ))}
                </Split>
              )}
            </Answer>
          </SimpleGrid>
          <Groups items={items} by={by} isBilled={isBilled} currency={currency} />
          {groups.hasNextPage && (
            <Button variant="default" loading={groups.isFetchingNextPage} onClick={() => void groups.fetchNextPage()}>
              {w('more')}
            </Button>
          )}
        </>
      )}
    </Stack>
  );
}

function Days({ items, since, isBilled, currency }: { items: readonly Item[]; since?: string; isBilled: boolean; currency: string }) {
  const t = useText(words);
  const format = useFormat();
  const days = useMemo(() => byDay(items, since), [items, since]);
  if (items.length === 0) return null;
  const hasGpus = days.gpu.some((value) => value > 0);
  const isMeasured = items.some((item) => item.gpu_measured_milli_seconds > 0);
  const lines = hasGpus ? [{ label: t(isMeasured ? 'heldPerDay' : 'gpuHours'), values: days.gpu }, ...(isMeasured ? [{ label: t('busyHours'), values: days.busy }] : [])] : [{ label: t('coreHours'), values: days.cpu }];
  return (
    <SimpleGrid cols={{ base: 1, lg: isBilled ? 2 : 1 }}>
      <Chart title={t(hasGpus ? 'perDay' : 'corePerDay')} times={days.times} lines={lines} unit={(value) => format.number(value, 2)} />
      {isBilled && <Chart title={t('costPerDay')} times={days.times} lines={[{ label: t('cost'), values: days.cost }]} unit={(value) => `${format.number(value, 2)} ${currency}`} />}
    </SimpleGrid>
  );
}

function Fates({ items, isBilled, currency }: { items: readonly Item[]; isBilled: boolean; currency: string }) {
  const t = useText(words);
  const format = useFormat();
  const all = sum(items);
  const part = (item: Item) => (all.gpu > 0 ? item.gpu_milli_seconds / all.gpu : all.cpu > 0 ? item.cpu_milli_seconds / all.cpu : 0);
  const name = (id: string) => (id in FATE_LOOK ? t(id as Fate) : id);
  return (
    <Split
      title={t('fate')}
      hint={t('fateHint')}
      empty=""
      above={
        <Progress.Root size="xl" mb="xs" role="group" aria-label={items.map((item) => `${name(item.id)} ${format.percent(part(item), 1)}`).join(', ')}>
          {items.map((item) => (
            <Progress.Section key={item.id} value={part(item) * 100} color={FATE_LOOK[item.id as Fate] ?? 'gray'} striped={item.id !== 'useful'} title={`${name(item.id)} ${format.percent(part(item), 1)}`} />
          ))}
        </Progress.Root>
      }
    >
      {items.map((item) => (
        <Table.Tr key={item.id}>
          <Table.Td>{name(item.id)}</Table.Td>
          <Table.Td>{format.percent(part(item), 1)}</Table.Td>
          <Hours gpu={item.gpu_milli_seconds} cpu={item.cpu_milli_seconds} />
          {isBilled && <Cost micros={item.micros} currency={currency} />}
        </Table.Tr>
      ))}
    </Split>
  );
}

/** What of the GPU time that was held was worked with, as far as somebody measured. */
function Busy({ items }: { items: readonly Item[] }) {
  const t = useText(words);
  const format = useFormat();
  const all = sum(items);
  const parts = [
    { name: t('busyHours'), amount: all.busy, color: 'teal', striped: false },
    { name: t('idleHours'), amount: all.measured - all.busy, color: 'orange', striped: true },
    { name: t('unseenHours'), amount: all.gpu - all.measured, color: 'gray', striped: true },
  ].map((part) => ({ ...part, share: part.amount / all.gpu }));
  const say = (part: { name: string; share: number }) => `${part.name} ${format.percent(part.share, 1)}`;
  return (
    <Split
      title={t('busyTitle')}
      hint={t('busyHint')}
      empty=""
      above={
        <Progress.Root size="xl" mb="xs" role="group" aria-label={parts.map(say).join(', ')}>
          {parts.map((part) => (
            <Progress.Section key={part.name} value={part.share * 100} color={part.color} striped={part.striped} title={say(part)} />
          ))}
        </Progress.Root>
      }
    >
      {parts.map((part) => (
        <Table.Tr key={part.name}>
          <Table.Td>{part.name}</Table.Td>
          <Table.Td>{format.percent(part.share, 1)}</Table.Td>
          <Table.Td ta="right">
            {sayHours(format, part.amount)} {t('gpuHours')}
          </Table.Td>
        </Table.Tr>
      ))}
    </Split>
  );
}

/** The share, with the hours behind it. */
function BusyCell({ measured, busy }: { measured: number; busy: number }) {
  const t = useText(words);
  const format = useFormat();
  const share = busyShare({ measured, busy });
  return share === null ? '–' : <span title={t('busyOf', { busy: sayHours(format, busy), measured: sayHours(format, measured) })}>{format.percent(share)}</span>;
}

function Split({ title, hint, empty, above, children }: { title: string; hint: string; empty: string; above?: ReactNode; children: ReactNode[] }) {
  return (
    <Card withBorder component="section" aria-label={title}>
      <Title order={2} size="h5">
        {title}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {hint}
      </Text>
      {above}
      {children.length === 0 ? (
        <Text size="sm">{empty}</Text>
      ) : (
        <Table.ScrollContainer minWidth={340}>
          <Table>
            <Table.Tbody>{children}</Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Card>
  );
}

function Hours({ gpu, cpu }: { gpu: number; cpu: number }) {
  const t = useText(words);
  const format = useFormat();
  return <Table.Td ta="right">{gpu > 0 ? `${sayHours(format, gpu)} ${t('gpuHours')}` : `${sayHours(format, cpu)} ${t('coreHours')}`}</Table.Td>;
}

function Cost({ micros, currency }: { micros: number | null; currency: string }) {
  const t = useText(words);
  const format = useFormat();
  return (
    <Table.Td ta="right" title={micros === null ? t('hiddenCost') : undefined}>
      {micros === null ? '–' : sayMoney(format, micros, currency)}
    </Table.Td>
  );
}

function Groups({ items, by, isBilled, currency }: { items: readonly Item[]; by: (typeof GROUPS)[number]; isBilled: boolean; currency: string }) {
  const t = useText(words);
  const format = useFormat();
  const all = sum(items);
  const isMeasured = all.measured > 0;
  const share = (gpu: number, cpu: number) => (all.gpu > 0 ? gpu / all.gpu : all.cpu > 0 ? cpu / all.cpu : 0);
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table stickyHeader>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t(GROUP_WORDS[by])}</Table.Th>
            <Table.Th ta="right">{t('gpuHours')}</Table.Th>
            <Table.Th w={140}>{t('share')}</Table.Th>
            {isMeasured && <Table.Th ta="right">{t('busy')}</Table.Th>}
            <Table.Th ta="right">{t('coreHours')}</Table.Th>
            <Table.Th ta="right">{t('memoryHours')}</Table.Th>
            <Table.Th ta="right">{t('attempts')}</Table.Th>
            {isBilled && <Table.Th ta="right">{t('cost')}</Table.Th>}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {items.map((item) => {
            const part = share(item.gpu_milli_seconds, item.cpu_milli_seconds);
            return (
              <Table.Tr key={item.id}>
                <Table.Td>
                  <GroupName item={item} by={by} />
                </Table.Td>
                <Table.Td ta="right">{sayHours(format, item.gpu_milli_seconds)}</Table.Td>
                <Table.Td>
                  <Group gap={6} wrap="nowrap">
                    <Progress value={part * 100} style={{ flex: 1 }} aria-hidden="true" />
                    <Text size="xs" w={42} ta="right">
                      {format.percent(part)}
                    </Text>
                  </Group>
                </Table.Td>
                {isMeasured && (
                  <Table.Td ta="right">
                    <BusyCell measured={item.gpu_measured_milli_seconds} busy={item.gpu_busy_milli_seconds} />
                  </Table.Td>
                )}
                <Table.Td ta="right">{sayHours(format, item.cpu_milli_seconds)}</Table.Td>
                <Table.Td ta="right">{format.number(gibHours(item.memory_byte_seconds), 2)}</Table.Td>
                <Table.Td ta="right">{format.number(item.attempts)}</Table.Td>
                {isBilled && <Cost micros={item.micros} currency={currency} />}
              </Table.Tr>
            );
          })}
        </Table.Tbody>
        <Table.Tfoot>
          <Table.Tr>
            <Table.Th>{t('total')}</Table.Th>
            <Table.Th ta="right">{sayHours(format, all.gpu)}</Table.Th>
            <Table.Td />
            {isMeasured && (
              <Table.Th ta="right">
                <BusyCell {...all} />
              </Table.Th>
            )}
            <Table.Th ta="right">{sayHours(format, all.cpu)}</Table.Th>
            <Table.Th ta="right">{format.number(gibHours(all.memory), 2)}</Table.Th>
            <Table.Th ta="right">{format.number(all.attempts)}</Table.Th>
            {isBilled && <Table.Th ta="right">{all.micros === null ? '–' : sayMoney(format, all.micros, currency)}</Table.Th>}
          </Table.Tr>
        </Table.Tfoot>
      </Table>
    </Table.ScrollContainer>
  );
}

function GroupName({ item, by }: { item: Item; by: (typeof GROUPS)[number] }) {
  const t = useText(words);
  if (by === 'job' || by === 'queue') {
    return (
      <Anchor component={Link} to={by === 'job' ? `/jobs/${item.id}` : `/queues/${item.id}`} size="sm">
        {item.name ?? item.id}
      </Anchor>
    );
  }
  if (by === 'fate' && item.id in FATE_LOOK) return t(item.id as Fate);
  return item.name ?? '–';
}
