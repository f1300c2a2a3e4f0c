/** One line: when, whose, and its text in the colours that it was printed in. Text nodes only, whatever was printed. */

import { memo, type ReactNode } from 'react';

import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { wallOf } from '@/text/zone';

import { parse, type Style } from './ansi';
import { isError } from './errors';
import { SHOWN_CHARS, SHOWN_CHARS_MAX } from './layout';
import { plainOf } from './logWindow';
import type { Line } from './lines';
import classes from './Logs.module.css';
import { placesOf } from './search';
import { words } from './text';

const HUES = 8;

export const LogLine = memo(function LogLine({
  line,
  text,
  style,
  withTime,
  withTask,
  isExpanded,
  word,
  isCurrent,
  expand,
}: {
  line: Line;
  /** `line.text`, which may grow while the line is the same. */
  text: string;
  /** `line.style`, which is known once what stands before the line was read. */
  style: Style;
  withTime: boolean;
  withTask: boolean;
  isExpanded: boolean;
  word: string;
  isCurrent: boolean;
  expand: (id: number) => void;
}) {
  const t = useText(words);
  const format = useFormat();
  const isLong = text.length > SHOWN_CHARS;
  const shown = isLong ? text.slice(0, isExpanded ? SHOWN_CHARS_MAX : SHOWN_CHARS) : text;
  const isBad = line.missing === null && isError(plainOf(line));
  return (
    <div className={classes.line} data-error={isBad || undefined} data-current={isCurrent || undefined} data-missing={line.missing !== null || undefined}>
      <span className={classes.sign} title={isBad ? t('errorLine') : undefined} aria-label={isBad ? t('errorLine') : undefined} role={isBad ? 'img' : undefined}>
        {isBad ? '●' : ''}
      </span>
      {withTime && (
        <time className={classes.time} dateTime={line.at} title={format.timeWithZone(line.at)}>
          {clock(line.at)}
        </time>
      )}
      {withTask && (
        <span className={classes.task} data-hue={hueOf(line)} title={`${line.role}-${line.index} ${line.stream}`}>
          {line.role}-{line.index}
        </span>
      )}
      {line.stream === 'stderr' && (
        <span className={classes.stderr} title="stderr">
          {t('streamErr')}
        </span>
      )}
      {isLong && (
        <button type="button" className={classes.more} onClick={() => expand(line.id)} aria-expanded={isExpanded}>
          {isExpanded ? t('showLess') : t('showAll', { count: format.number(text.length) })}
        </button>
      )}
      <span className={classes.text}>{line.missing === null ? runs(shown, style, word) : t('missing', { size: format.bytes(line.missing), why: text })}</span>
    </div>
  );
});

function runs(text: string, style: Style, word: string): ReactNode[] {
  const { runs: found } = parse(text, style);
  const places = word ? placesOf(found.map((run) => run.text).join(''), word) : [];
  const nodes: ReactNode[] = [];
  let offset = 0;
  let place = 0;
  for (const run of found) {
    const look = classOf(run.style);
    let from = 0;
    while (from < run.text.length) {
      while (place < places.length && (places[place]?.[1] ?? 0) <= offset + from) place += 1;
      const [start, end] = places[place] ?? [Infinity, Infinity];
      const isMarked = start <= offset + from;
      const upTo = Math.min(run.text.length, (isMarked ? end : start) - offset);
      const piece = run.text.slice(from, upTo);
      const key = nodes.length;
      if (isMarked) nodes.push(<mark key={key} className={look}>{piece}</mark>);
      else nodes.push(look ? <span key={key} className={look}>{piece}</span> : piece);
      from = upTo;
    }
    offset += run.text.length;
  }
  return nodes;
}

/** Names of a closed list only: nothing of the text reaches an attribute. */
function classOf(style: Style): string | undefined {
  const names: string[] = [];
  if (style.bold) names.push(classes.bold ?? '');
  if (style.faint) names.push(classes.faint ?? '');
  if (style.italic) names.push(classes.italic ?? '');
  if (style.underline) names.push(classes.underline ?? '');
  if (style.inverse) names.push(classes.inverse ?? '');
  if (style.ink !== null) names.push(classes[`ink${style.ink}`] ?? '');
  if (style.ground !== null) names.push(classes[`ground${style.ground}`] ?? '');
  return names.length > 0 ? names.join(' ') : undefined;
}

function hueOf(line: Line): number {
  let hash = line.index;
  for (let at = 0; at < line.role.length; at += 1) hash += line.role.charCodeAt(at) * 3;
  return hash % HUES;
}

const two = (value: number) => String(value).padStart(2, '0');

function clock(at: string): string {
  const time = new Date(at);
  const { hour, minute, second } = wallOf(time);
  return `${two(hour)}:${two(minute)}:${two(second)}.${String(time.getMilliseconds()).padStart(3, '0')}`;
}
