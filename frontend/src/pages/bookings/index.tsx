/** Reservations of GPUs: on a calendar by week and month, and the same as a list. */

import { ActionIcon, Button, Group, SegmentedControl, Select, Text, Title } from '@mantine/core';
import { useMemo, useState } from 'react';

import { api, take } from '@/api/client';
import { usePools } from '@/api/fleet';
import { usePaged } from '@/api/paging';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { atWall, wallOf } from '@/text/zone';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';

import { BookDialog } from './BookForm';
import { Calendar } from './Calendar';
import { dateText, dayOf, readDate, weekOf, weeksOfMonth, type Booking } from './calendar';
import { Details } from './Details';
import { BookingList } from './BookingList';
import { words } from './text';

const VIEWS = ['week', 'month', 'list'] as const;

export default function Bookings() {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const session = useSession();
  const [search, put] = useAddress('step');
  const [shown, setShown] = useState<Booking | null>(null);
  const [bookFrom, setBookFrom] = useState<Date | null>(null);
  const view = VIEWS.find((name) => name === search.get('view')) ?? 'week';
  const day = readDate(search.get('at'), new Date());
  const pool = search.get('pool');
  const tenant = search.get('tenant');
  const pools = usePools();
  const list = usePaged<Booking>(['bookings', tenant], (cursor) => take(api.GET('/api/v1/bookings', { params: { query: { limit: 500, cursor, tenant: tenant ?? undefined } } })));
  const rows = useMemo(() => (list.rows ?? []).filter((booking) => !pool || booking.pool?.id === pool), [list.rows, pool]);
  const gpuPools = (pools.data ?? []).filter((found) => found.capacity.gpu_millis > 0);
  const onePool = gpuPools.find((found) => found.id === pool) ?? (gpuPools.length === 1 ? gpuPools[0] : undefined);
  const weeks = view === 'month' ? weeksOfMonth(day) : [weekOf(day)];
  const last = dayOf(weeks.at(-1) ?? day, 6);
  const step = (direction: 1 | -1) => put({ at: dateText(view === 'month' ? atWall(wallOf(day).year, wallOf(day).month + direction, 1) : dayOf(day, 7 * direction)) });
  const mayBook = session.isOperator || session.may('manager');
  const calendarOf = (found: readonly Booking[]) => (
    <Calendar
      label={t('calendar', { from: format.day((weeks[0] ?? day).toISOString()), until: format.day(last.toISOString()) })}
      weeks={weeks}
      month={view === 'month' ? wallOf(day).month : null}
      bookings={found.filter((booking) => booking.state !== 'cancelled')}
      all={list.rows ?? []}
      pool={onePool && { id: onePool.id, total: onePool.capacity.gpu_millis }}
      show={setShown}
      book={mayBook ? setBookFrom : undefined}
    />
  );
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      wide
      actions={
        <>
          <CopyAs
            ways={{
              cli: 'berth reserve list\nberth reserve make 8 --pool a100 --from 2027-01-05T20:00 --for 10h',
              curl: curl('GET', '/bookings'),
              python: 'from berth import Client\n\nwith Client() as client:\n    for booking in client.request("GET", "/bookings")["items"]:\n        print(booking["starts_at"], booking["gpu_millis"] / 1000, booking["state"])',
            }}
          />
          {mayBook && (
            <Button leftSection={<Icon name="submit" size={16} />} aria-haspopup="dialog" onClick={() => setBookFrom(nextHour())}>
              {t('book')}
            </Button>
          )}
        </>
      }
    >
      <Group justify="space-between">
        <Group gap="xs">
          <SegmentedControl aria-label={t('view')} value={view} onChange={(value) => put({ view: value === 'week' ? null : value })} data={VIEWS.map((value) => ({ value, label: t(value) }))} />
          {view !== 'list' && (
            <>
              <ActionIcon variant="default" size="lg" aria-label={t('before')} onClick={() => step(-1)}>
                <Icon name="left" />
              </ActionIcon>
              <Button variant="default" onClick={() => put({ at: null })}>
                {t('today')}
              </Button>
              <ActionIcon variant="default" size="lg" aria-label={t('after')} onClick={() => step(1)}>
                <Icon name="right" />
              </ActionIcon>
              <Title order={2} size="h4" aria-live="polite">
                {view === 'month' ? format.month(day) : `${format.day((weeks[0] ?? day).toISOString())} – ${format.day(last.toISOString())}`}
              </Title>
            </>
          )}
        </Group>
        <Group gap="xs">
          <Select aria-label={t('pool')} placeholder={t('allPools')} clearable w={170} data={gpuPools.map((found) => ({ value: found.id, label: found.name }))} value={pool} onChange={(value) => put({ pool: value })} />
          <Select aria-label={t('tenant')} placeholder={t('allTenants')} clearable searchable w={190} data={session.who.tenants.map((found) => ({ value: found.slug, label: found.name }))} value={tenant} onChange={(value) => put({ tenant: value })} />
        </Group>
      </Group>
      <PagedView list={{ ...list, rows: list.rows && rows }} empty={view === 'list' ? <None mayBook={mayBook} /> : calendarOf([])}>
        {(found) => (view === 'list' ? <BookingList rows={found} show={setShown} /> : calendarOf(found))}
      </PagedView>
      <Text size="sm" c="dimmed">
        {c('timesIn', { zone: format.zoneName })}
      </Text>
      {shown && <Details booking={list.rows?.find((row) => row.id === shown.id) ?? shown} close={() => setShown(null)} />}
      {bookFrom && (
        <BookDialog
          from={bookFrom}
          pools={gpuPools}
          pool={onePool?.id}
          bookings={list.rows ?? []}
          close={(booked) => {
            setBookFrom(null);
            if (booked) put({ at: booked });
          }}
        />
      )}
    </Page>
  );
}

function None({ mayBook }: { mayBook: boolean }) {
  const t = useText(words);
  return (
    <Empty icon="bookings" title={t('none')} command={mayBook ? 'berth reserve make 8 --pool a100 --from 2027-01-05T20:00 --for 10h' : undefined}>
      {t(mayBook ? 'noneHint' : 'noneHintRead')}
    </Empty>
  );
}

function nextHour(): Date {
  const now = wallOf(new Date());
  return atWall(now.year, now.month, now.day, now.hour + 1);
}
