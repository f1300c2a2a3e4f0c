/** Weeks, each with its days and bars. Every bar is a button, in the order of time. */

import { Box, Stack, VisuallyHidden } from '@mantine/core';

import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { wallOf } from '@/text/zone';
import { Icon } from '@/ui/Icon';
import { useNow } from '@/ui/Times';

import { barsOf, dayOf, freeIn, type Bar, type Booking } from './calendar';
import classes from './Calendar.module.css';
import { lookOf, LOOKS } from './look';
import { words } from './text';

interface CalendarProps {
  label: string;
  weeks: readonly Date[];
  /** Days outside of it are faint. Null: none is. */
  month: number | null;
  bookings: readonly Booking[];
  /** All that are known, for what is free. */
  all: readonly Booking[];
  pool: { id: string; total: number } | undefined;
  show: (booking: Booking) => void;
  book: ((from: Date) => void) | undefined;
}

export function Calendar({ label, weeks, ...rest }: CalendarProps) {
  return (
    <Stack gap="xs" role="region" aria-label={label} tabIndex={0} style={{ overflowX: 'auto', position: 'relative' }}>
      {weeks.map((week) => (
        <Week key={week.getTime()} week={week} isBig={weeks.length === 1} {...rest} />
      ))}
    </Stack>
  );
}

function Week({ week, isBig, month, bookings, all, pool, show, book }: Omit<CalendarProps, 'label' | 'weeks'> & { week: Date; isBig: boolean }) {
  const bars = barsOf(bookings, week);
  const lanes = Math.max(0, ...bars.map((bar) => bar.lane + 1));
  const height = isBig ? 46 : 26;
  return (
    <div className={classes.week}>
      <div className={classes.head}>
        {Array.from({ length: 7 }, (_, index) => (
          <Day key={index} day={dayOf(week, index)} isFaint={month !== null && wallOf(dayOf(week, index)).month !== month} all={all} pool={pool} book={book} />
        ))}
      </div>
      <Box className={classes.lanes} style={{ '--least': isBig ? '16rem' : '2.2rem', height: lanes * (height + 4) + 6 }}>
        <Now week={week} />
        {bars.map((bar) => (
          <BarButton key={bar.booking.id} bar={bar} height={height} isBig={isBig} show={show} />
        ))}
      </Box>
    </div>
  );
}

function Day({ day, isFaint, all, pool, book }: { day: Date; isFaint: boolean } & Pick<CalendarProps, 'all' | 'pool' | 'book'>) {
  const t = useText(words);
  const format = useFormat();
  const name = format.weekday(day);
  const tomorrow = dayOf(day, 1);
  const isPast = tomorrow.getTime() <= Date.now();
  const isToday = dayOf(new Date()).getTime() === day.getTime();
  const free = pool && !isPast ? t('free', { free: format.milli(Math.max(0, freeIn(all, pool.id, pool.total, day.getTime(), tomorrow.getTime()))), total: format.milli(pool.total) }) : null;
  const content = (
    <>
      {name}
      <span className={classes.free}>{free ?? '\u00a0'}</span>
    </>
  );
  const marks = { 'data-today': isToday || undefined, 'data-faint': isFaint || isPast || undefined };
  if (!book || isPast) {
    return (
      <div className={classes.day} {...marks}>
        {content}
      </div>
    );
  }
  return (
    <button type="button" className={classes.day} {...marks} aria-haspopup="dialog" onClick={() => book(isToday ? new Date(Math.ceil(Date.now() / 3_600_000) * 3_600_000) : day)}>
      {content}
      <VisuallyHidden>{t('bookOn', { day: name })}</VisuallyHidden>
    </button>
  );
}

function BarButton({ bar, height, isBig, show }: { bar: Bar; height: number; isBig: boolean; show: (booking: Booking) => void }) {
  const t = useText(words);
  const format = useFormat();
  const { booking } = bar;
  const look = lookOf(booking);
  const gpus = booking.gpu_millis / 1000;
  const [from, until] = [format.time(booking.starts_at), format.time(booking.ends_at)];
  const all = t('bar', { gpus, pool: booking.pool?.name ?? '–', tenant: booking.tenant.name, from, until, state: t(look) });
  return (
    <button
      type="button"
      className={classes.bar}
      data-look={look}
      title={all}
      style={{ left: `${bar.left * 100}%`, width: `calc(${bar.width * 100}% - 3px)`, top: bar.lane * (height + 4) + 4, height }}
      aria-haspopup="dialog"
      onClick={() => show(booking)}
    >
      <Icon name={LOOKS[look].icon} size={11} /> {bar.isCutLeft && '‹ '}
      {t('short', { gpus, tenant: booking.tenant.name })}
      {bar.isCutRight && ' ›'}
      {isBig && (
        <>
          <br />
          {booking.comment ? <bdi>{booking.comment}</bdi> : `${booking.pool?.name ?? ''} · ${t(look)}`}
        </>
      )}
      <VisuallyHidden>{all}</VisuallyHidden>
    </button>
  );
}

function Now({ week }: { week: Date }) {
  const now = useNow();
  const end = dayOf(week, 7).getTime();
  if (now < week.getTime() || now >= end) return null;
  return <span className={classes.now} aria-hidden="true" style={{ left: `${((now - week.getTime()) / (end - week.getTime())) * 100}%` }} />;
}
