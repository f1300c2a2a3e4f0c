/** What stands in a row. Each piece reads only its own job; plain elements, because a fast scroll draws hundreds of them. */

import { Checkbox } from '@mantine/core';
import type { MouseEvent, ReactNode } from 'react';
import { Link } from 'react-router';

import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { localized } from '@/text/moments';
import { plain } from '@/ui/plain';
import { Status } from '@/ui/Status';
import { Elapsed } from '@/ui/Times';

import classes from './Jobs.module.css';
import type { Job } from './merge';
import { useIsSelected, useSelected, type Selection } from './selection';
import { words } from './text';

const TAGS_SHOWN = 3;

export function Tick({ job, selection, all }: { job: Job; selection: Selection; all: () => readonly string[] }) {
  const t = useText(words);
  const isOn = useIsSelected(selection, job.id);
  return (
    <input
      type="checkbox"
      className={classes.tick}
      checked={isOn}
      aria-label={t('select', { name: job.name })}
      onChange={() => undefined}
      onClick={(event: MouseEvent) => selection.toggle(job.id, all(), event.shiftKey)}
    />
  );
}

export function TickAll({ selection, all }: { selection: Selection; all: () => readonly string[] }) {
  const t = useText(words);
  const ids = useSelected(selection);
  const loaded = all();
  const isAll = loaded.length > 0 && ids.length >= loaded.length;
  return <Checkbox size="xs" checked={isAll} indeterminate={ids.length > 0 && !isAll} aria-label={t('selectAll')} onChange={() => (isAll ? selection.clear() : selection.set(all()))} />;
}

export function Name({ job, onTag }: { job: Job; onTag: (tag: string) => void }) {
  const t = useText(words);
  const size = job.array?.size;
  const more = job.tags.slice(TAGS_SHOWN).join(', ');
  return (
    <div className={classes.two}>
      <Link to={`/jobs/${job.id}`} title={job.name} className={`${classes.line} ${classes.name}`}>
        {job.name}
      </Link>
      {(job.tags.length > 0 || size != null || job.hold) && (
        <div className={`${classes.row} ${classes.faint}`}>
          {size != null && <span>{t('arrayOf', { count: size })}</span>}
          {job.hold && <span>{t('held')}</span>}
          {job.tags.slice(0, TAGS_SHOWN).map((tag) => (
            <button key={tag} type="button" className={classes.tag} onClick={() => onTag(tag)} title={tag}>
              {tag}
            </button>
          ))}
          {more && <span title={more}>+{job.tags.length - TAGS_SHOWN}</span>}
        </div>
      )}
    </div>
  );
}

/** Why it waits, or how it ended, in few words; all of them as the title. */
export function StateAndWhy({ job }: { job: Job }) {
  const format = useFormat();
  const exit = job.ended_at === null ? null : job.exit;
  const short = job.state === 'running' || job.state === 'succeeded' ? '' : localized(exit?.reason ?? job.reason?.text ?? '', format);
  const whole = localized([(exit ?? job.reason)?.text, (exit ?? job.reason)?.hint].filter(Boolean).join(' '), format);
  return (
    <div className={classes.two}>
      <Status state={job.state} size="sm" />
      {short && (
        <span className={`${classes.line} ${classes.faint}`} title={plain(whole)}>
          {short}
        </span>
      )}
    </div>
  );
}

export function Where({ job }: { job: Job }) {
  return (
    <div className={classes.two}>
      <span className={classes.line} title={job.tenant.name}>
        {job.tenant.name}
      </span>
      {job.queue.name !== job.tenant.name && (
        <span className={`${classes.line} ${classes.faint}`} title={job.queue.name}>
          {job.queue.name}
        </span>
      )}
    </div>
  );
}

/** Known once it was given a place, or asked for one. */
export function WhereItRuns({ job }: { job: Job }) {
  if (!job.cluster && !job.pool) return <>–</>;
  const [first, second] = job.cluster ? [job.cluster, job.pool] : [job.pool, null];
  return (
    <div className={classes.two}>
      <span className={classes.line}>{first}</span>
      {second && <span className={`${classes.line} ${classes.faint}`}>{second}</span>}
    </div>
  );
}

export function Gpus({ job }: { job: Job }) {
  const t = useText(words);
  const format = useFormat();
  const hasGpus = job.resources.gpu_millis > 0;
  return (
    <div className={classes.two}>
      <span className={hasGpus ? classes.strong : classes.dimmed}>{format.milli(job.resources.gpu_millis)}</span>
      <span className={`${classes.line} ${classes.faint}`} title={job.gpus_simulated ? t('simulated') : undefined}>
        {job.gpus_simulated ? t('simulated') : t('cores', { amount: format.milli(job.resources.cpu_millis), count: job.resources.cpu_millis / 1000 })}
      </span>
    </div>
  );
}

/** How long it has waited, and how long it ran. */
export function Lengths({ job }: { job: Job }) {
  const t = useText(words);
  return (
    <div className={classes.two}>
      {job.started_at && (
        <span className={classes.line}>
          <Around text={t(job.ended_at ? 'ran' : 'runs', { time: '\n' })}>
            <Elapsed from={job.started_at} to={job.ended_at} />
          </Around>
        </span>
      )}
      <span className={`${classes.line} ${job.started_at ? classes.faint : ''}`}>
        <Around text={t(job.started_at || job.ended_at ? 'waited' : 'waits', { time: '\n' })}>
          <Elapsed from={job.submitted_at} to={job.started_at ?? job.ended_at} />
        </Around>
      </span>
    </div>
  );
}

function Around({ text, children }: { text: string; children: ReactNode }) {
  const [before, after] = text.split('\n');
  return (
    <>
      {before}
      {children}
      {after}
    </>
  );
}
