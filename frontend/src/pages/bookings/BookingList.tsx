/** The same bookings as rows, for who reads tables better than calendars. */

import { Anchor } from '@mantine/core';

import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Rows, type Column } from '@/ui/Rows';
import { Mark } from '@/ui/Status';

import type { Booking } from './calendar';
import { lookOf, LOOKS } from './look';
import { words } from './text';

export function BookingList({ rows, show }: { rows: readonly Booking[]; show: (booking: Booking) => void }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const columns: Column<Booking>[] = [
    { key: 'state', header: c('state'), width: '8rem', cell: (row) => <Mark {...LOOKS[lookOf(row)]} label={t(lookOf(row))} size="sm" /> },
    {
      key: 'from',
      header: t('from'),
      width: 'minmax(9rem, 1fr)',
      cell: (row) => (
        <Anchor component="button" type="button" size="sm" aria-haspopup="dialog" onClick={() => show(row)} aria-label={`${t('details')}: ${row.tenant.name}, ${format.time(row.starts_at)}`}>
          {format.time(row.starts_at)}
        </Anchor>
      ),
    },
    { key: 'until', header: t('until'), width: 'minmax(10rem, 1fr)', isMinor: true, cell: (row) => format.time(row.ends_at) },
    { key: 'gpus', header: t('gpus'), width: '4rem', cell: (row) => format.milli(row.gpu_millis) },
    { key: 'pool', header: t('pool'), width: '7rem', isMinor: true, cell: (row) => row.pool?.name ?? '–' },
    { key: 'tenant', header: t('tenant'), width: 'minmax(7rem, 1fr)', isMinor: true, cell: (row) => row.tenant.name },
    { key: 'comment', header: t('comment'), width: 'minmax(8rem, 2fr)', isMinor: true, cell: (row) => row.comment },
  ];
  return <Rows label={t('title')} rows={rows} columns={columns} rowKey={(row) => row.id} height="60vh" />;
}
