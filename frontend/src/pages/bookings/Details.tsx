/** One booking, and the way to give it up. */

import { Group, Stack, Table, Text } from '@mantine/core';

import { api } from '@/api/client';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';
import { Window } from '@/ui/Window';

import type { Booking } from './calendar';
import { lookOf, LOOKS } from './look';
import { words } from './text';

export function Details({ booking, close }: { booking: Booking; close: () => void }) {
  const t = useText(words);
  const format = useFormat();
  const session = useSession();
  const isOwn = booking.created_by?.id === session.who.user.id;
  const mayCancel = booking.state === 'held' && (session.isOperator || isOwn || session.may('manager', booking.tenant.slug));
  const facts: readonly [string, React.ReactNode][] = [
    [t('gpus'), `${format.milli(booking.gpu_millis)} · ${booking.pool?.name ?? '–'}`],
    [t('tenant'), booking.tenant.name],
    [t('queue'), booking.queue.name],
    [t('window'), `${format.timeWithZone(booking.starts_at)} – ${format.timeWithZone(booking.ends_at)}`],
    [t('claimed'), booking.claimed_at ? <When key="claimed" at={booking.claimed_at} /> : t('notClaimed')],
    ...(booking.released_at ? [[t('released'), <When key="released" at={booking.released_at} />] as [string, React.ReactNode]] : []),
    [t('by'), booking.created_by?.name ?? '–'],
  ];
  return (
    <Window onClose={close} title={t('details')} size="lg">
      <Stack>
        <Group>
          <Mark {...LOOKS[lookOf(booking)]} label={t(lookOf(booking))} />
          <Text style={{ overflowWrap: 'anywhere' }}>{booking.comment}</Text>
        </Group>
        <Table variant="vertical" aria-label={t('details')}>
          <Table.Tbody>
            {facts.map(([name, value]) => (
              <Table.Tr key={name}>
                <Table.Th w={140}>{name}</Table.Th>
                <Table.Td>{value}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        <Group justify="space-between">
          <CopyAs
            ways={{
              cli: `berth reserve cancel ${booking.id}`,
              curl: curl('GET', `/bookings/${booking.id}`),
              python: `from berth import Client\n\nwith Client() as client:\n    print(client.request("GET", "/bookings/${booking.id}"))`,
            }}
          />
          {mayCancel && (
            <Confirm
              label={t('cancel')}
              title={t('cancelTitle')}
              color="red"
              act={async () => {
                await api.DELETE('/api/v1/bookings/{booking_id}', { params: { path: { booking_id: booking.id } } });
                await queries.invalidateQueries({ queryKey: ['bookings'] });
              }}
            >
              {t('cancelHint')}
            </Confirm>
          )}
        </Group>
      </Stack>
    </Window>
  );
}
