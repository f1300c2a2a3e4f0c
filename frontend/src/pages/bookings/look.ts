/** How a booking is told apart, in words, sign and colour. */

import type { MantineColor } from '@mantine/core';

import type { IconName } from '@/ui/Icon';

import type { Booking } from './calendar';

export type Look = 'held' | 'running' | 'ended' | 'no_show' | 'cancelled';

/** Held and taken up by jobs is a look of its own. */
export function lookOf(booking: Booking): Look {
  return booking.state === 'held' && booking.claimed_at ? 'running' : booking.state;
}

export const LOOKS: Record<Look, { icon: IconName; color: MantineColor }> = {
  held: { icon: 'bookings', color: 'blue' },
  running: { icon: 'play', color: 'teal' },
  ended: { icon: 'check', color: 'gray' },
  no_show: { icon: 'alert', color: 'orange' },
  cancelled: { icon: 'cross', color: 'gray' },
};
