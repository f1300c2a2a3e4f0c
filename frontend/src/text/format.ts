/** Numbers, sizes and times as people read them, in their language and the time zone that they prefer. */

import { useLanguage, type Language } from './language';
import { useZone } from './zone';

const GIB = 1024 ** 3;
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

export interface Format {
  number: (value: number, digits?: number) => string;
  percent: (ratio: number, digits?: number) => string;
  bytes: (bytes: number) => string;
  gib: (bytes: number) => string;
  /** Thousandths of a GPU or of a core, as whole or broken numbers of them. */
  milli: (thousandths: number) => string;
  /** A length of time: `3 h 12 min`. Null: a dash. */
  duration: (seconds: number | null | undefined) => string;
  /** Day and time with seconds, in the reader's zone. Null: a dash. */
  time: (iso: string | null | undefined) => string;
  /** `time` with how far the zone is from UTC at that time: `Jul 10, 2027, 14:00:00 GMT+2`. */
  timeWithZone: (iso: string | null | undefined) => string;
  /** `time` without seconds. */
  minute: (iso: string) => string;
  day: (iso: string) => string;
  /** A day with its weekday, and a month with its year, as calendars head them. */
  weekday: (moment: Date) => string;
  month: (moment: Date) => string;
  /** A mark on an axis of time that spans so many seconds. */
  tick: (seconds: number, spanSeconds: number) => string;
  /** The same as seen from now: `3 minutes ago`. */
  ago: (iso: string | null | undefined, now?: number) => string;
  /** The reader's zone as `Europe/Berlin`, where several times or times to come are said to be in it: how far it is from UTC depends on the day. */
  zoneName: string;
  /** How far it is from UTC today, as `GMT+1`. */
  zoneToday: string;
}

const WORDS = {
  en: { d: 'd', h: 'h', min: 'min', s: 's' },
  zh: { d: '天', h: '小时', min: '分', s: '秒' },
} as const;

function formatDuration(seconds: number, language: Language): string {
  const words = WORDS[language];
  const gap = language === 'zh' ? '' : ' ';
  const say = (...parts: [number, string][]) => parts.filter(([count], index) => index === 0 || count > 0).map(([count, word]) => `${count}${gap}${word}`).join(' ');
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return say([seconds > 0 && seconds < 10 && whole !== seconds ? Math.round(seconds * 10) / 10 : whole, words.s]);
  if (whole < 3600) return say([Math.floor(whole / 60), words.min], [whole % 60, words.s]);
  if (whole < 86_400) return say([Math.floor(whole / 3600), words.h], [Math.floor((whole % 3600) / 60), words.min]);
  return say([Math.floor(whole / 86_400), words.d], [Math.floor((whole % 86_400) / 3600), words.h]);
}

function formatBytes(bytes: number, language: Language): string {
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value)} ${UNITS[unit]}`;
}

export function makeFormat(language: Language, timeZone?: string): Format {
  const locale = language === 'zh' ? 'zh-CN' : 'en';
  const times = (options: Intl.DateTimeFormatOptions) => once(() => new Intl.DateTimeFormat(locale, { ...options, timeZone }));
  const toSecond = { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;
  const time = times(toSecond);
  const timeWithZone = times({ ...toSecond, timeZoneName: 'short' });
  const minute = times({ year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  const day = times({ year: 'numeric', month: 'short', day: 'numeric' });
  const hour = times({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  const date = times({ month: 'numeric', day: 'numeric' });
  const clock = times({ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
  const weekday = times({ weekday: 'short', day: 'numeric', month: 'short' });
  const month = times({ year: 'numeric', month: 'long' });
  const named = times({ timeZoneName: 'short' });
  const zoneToday = once(() => named().formatToParts(new Date()).find((part) => part.type === 'timeZoneName')?.value ?? '');
  const relative = once(() => new Intl.RelativeTimeFormat(locale, { numeric: 'auto' }));
  // Making one of these costs far more than using it, and a page of cells asks for thousands.
  const made = new Map<string, Intl.NumberFormat>();
  const formatter = (style: 'decimal' | 'percent', digits: number) => {
    const key = `${style}${digits}`;
    const found = made.get(key) ?? new Intl.NumberFormat(locale, { style, maximumFractionDigits: digits });
    made.set(key, found);
    return found;
  };
  const tiny = once(() => new Intl.NumberFormat(locale, { maximumSignificantDigits: 1 }));
  const number = (value: number, digits = 1) => {
    // Most numbers are small and whole, and every language here writes them alike: the first format costs a visit ten milliseconds.
    if (Number.isInteger(value) && Math.abs(value) < 1000) return String(value);
    // Little is not nothing: what these digits would show as 0 is written with its first one.
    const isLittle = Math.abs(value) < 0.5 * 10 ** -digits;
    return (isLittle ? tiny() : formatter('decimal', digits)).format(value);
  };
  return {
    number,
    percent: (ratio, digits = 0) => formatter('percent', digits).format(ratio),
    bytes: (bytes) => formatBytes(bytes, language),
    gib: (bytes) => `${number(bytes / GIB)} GiB`,
    milli: (thousandths) => number(thousandths / 1000, 3),
    duration: (seconds) => (seconds === null || seconds === undefined ? '–' : formatDuration(seconds, language)),
    time: (iso) => (iso ? time().format(new Date(iso)) : '–'),
    timeWithZone: (iso) => (iso ? timeWithZone().format(new Date(iso)) : '–'),
    minute: (iso) => minute().format(new Date(iso)),
    tick: (seconds, span) => (span <= 600 ? clock : span <= 2 * 86_400 ? hour : date)().format(new Date(seconds * 1000)),
    day: (iso) => day().format(new Date(iso)),
    weekday: (moment) => weekday().format(moment),
    month: (moment) => month().format(moment),
    ago: (iso, now = Date.now()) => {
      if (!iso) return '–';
      const seconds = (new Date(iso).getTime() - now) / 1000;
      const size = Math.abs(seconds);
      if (size < 60) return relative().format(Math.round(seconds), 'second');
      if (size < 3600) return relative().format(Math.round(seconds / 60), 'minute');
      if (size < 86_400) return relative().format(Math.round(seconds / 3600), 'hour');
      return relative().format(Math.round(seconds / 86_400), 'day');
    },
    get zoneName() {
      return timeZone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone;
    },
    get zoneToday() {
      return zoneToday();
    },
  };
}

/** Made when it is first asked for: a format costs a millisecond, and a page uses two or three of the ten. */
function once<T extends object | string>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** Made once for the whole page: its parts cost milliseconds each, and every cell of a table asks. */
const formats = new Map<string, Format>();

export function useFormat(): Format {
  const { language } = useLanguage();
  const zone = useZone();
  const key = `${language} ${zone ?? ''}`;
  const found = formats.get(key) ?? makeFormat(language, zone);
  formats.set(key, found);
  return found;
}
