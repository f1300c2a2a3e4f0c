/** What stands in a row. Each piece reads only its own job. */

import { Anchor, Badge, Checkbox, Group, Text, Tooltip } from '@mantine/core';
import { memo, type MouseEvent } from 'react';
import { Link } from 'react-router';

import { useFormat } from '@/text/format';
import { useLanguage, useText } from '@/text/language';
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
    <Checkbox
      size="xs"
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

export const Name = memo(function Name({ job, onTag }: { job: Job; onTag: (tag: string) => void }) {
  const t = useText(words);
  return (
    <div className={classes.two}>
      <Anchor component={Link} to={`/jobs/${job.id}`} fw={600} size="sm" title={job.name} className={classes.line}>
        {job.name}
      </Anchor>
      <Group gap={4} wrap="nowrap" className={classes.line}>
        {job.array?.size != null && (
          <Text size="xs" c="dimmed" span>
            {t('arrayOf', { count: job.array.size })}
          </Text>
        )}
        {job.hold && (
          <Text size="xs" c="dimmed" span>
            {t('held')}
          </Text>
        )}
        {job.tags.slice(0, TAGS_SHOWN).map((tag) => (
          <Badge key={tag} component="button" type="button" size="xs" variant="default" className={`berth-mark ${classes.tag}`} onClick={() => onTag(tag)} title={tag}>
            {tag}
          </Badge>
        ))}
        {job.tags.length > TAGS_SHOWN && (
          <Tooltip label={job.tags.slice(TAGS_SHOWN).join(', ')}>
            <Text size="xs" c="dimmed" span>
              +{job.tags.length - TAGS_SHOWN}
            </Text>
          </Tooltip>
        )}
      </Group>
    </div>
  );
});

/** Why it waits, or how it ended, in few words; all of them as the title. */
export function StateAndWhy({ job }: { job: Job }) {
  const isEnded = job.exit !== null && job.ended_at !== null;
  const { language } = useLanguage();
  const isShort = isEnded && language === 'en'; // The words of an exit come in English only.
  const short = job.state === 'running' || job.state === 'succeeded' ? '' : isShort ? (job.exit?.reason ?? '') : (job.reason?.text ?? '');
  const whole = [isShort ? job.exit?.text : job.reason?.text, isShort ? job.exit?.hint : job.reason?.hint].filter(Boolean).join(' ');
  return (
    <div className={classes.two}>
      <Status state={job.state} size="sm" />
      {short && (
        <Text size="xs" c="dimmed" className={classes.line} title={whole}>
          {short}
        </Text>
      )}
    </div>
  );
}

export function Where({ job }: { job: Job }) {
  return (
    <div className={classes.two}>
      <Text size="sm" className={classes.line} title={job.tenant.name}>
        {job.tenant.name}
      </Text>
      {job.queue.name !== job.tenant.name && (
        <Text size="xs" c="dimmed" className={classes.line} title={job.queue.name}>
          {job.queue.name}
        </Text>
      )}
    </div>
  );
}

export function Gpus({ job }: { job: Job }) {
  const t = useText(words);
  const format = useFormat();
  return (
    <div className={classes.two}>
      <Text size="sm" fw={job.resources.gpu_millis > 0 ? 600 : 400} c={job.resources.gpu_millis > 0 ? undefined : 'dimmed'}>
        {format.milli(job.resources.gpu_millis)}
      </Text>
      <Text size="xs" c="dimmed" className={classes.line} title={job.gpus_simulated ? t('simulated') : undefined}>
        {job.gpus_simulated ? t('simulated') : t('cores', { count: format.milli(job.resources.cpu_millis) })}
      </Text>
    </div>
  );
}

/** How long it has waited, and how long it ran. */
export function Lengths({ job }: { job: Job }) {
  const t = useText(words);
  const ended = job.ended_at ?? (job.state === 'queued' ? null : undefined);
  const [waited, ran] = [t(job.started_at || job.ended_at ? 'waited' : 'waits', { time: '\n' }), t(job.ended_at ? 'ran' : 'runs', { time: '\n' })];
  return (
    <div className={classes.two}>
      {job.started_at && (
        <Text size="sm" className={classes.line}>
          <Around text={ran}>
            <Elapsed from={job.started_at} to={ended ?? null} />
          </Around>
        </Text>
      )}
      <Text size={job.started_at ? 'xs' : 'sm'} c={job.started_at ? 'dimmed' : undefined} className={classes.line}>
        <Around text={waited}>
          <Elapsed from={job.submitted_at} to={job.started_at ?? job.ended_at} />
        </Around>
      </Text>
    </div>
  );
}

function Around({ text, children }: { text: string; children: React.ReactNode }) {
  const [before, after] = text.split('\n');
  return (
    <>
      {before}
      {children}
      {after}
    </>
  );
}
