/** A job's state: a sign, a word and a colour, so that no one of them carries the meaning alone. */

import type { MantineColor } from '@mantine/core';
import type { CSSProperties } from 'react';

import { common } from '@/text/common';
import { useText } from '@/text/language';

import { Icon, type IconName } from './Icon';
import classes from './Status.module.css';

export const JOB_STATES = ['queued', 'admitted', 'starting', 'running', 'stopping', 'succeeded', 'failed', 'stopped'] as const;
export type JobState = (typeof JOB_STATES)[number];

const LOOK: Record<JobState, { icon: IconName; color: MantineColor }> = {
  queued: { icon: 'hourglass', color: 'yellow' },
  admitted: { icon: 'clock', color: 'cyan' },
  starting: { icon: 'refresh', color: 'cyan' },
  running: { icon: 'play', color: 'blue' },
  stopping: { icon: 'pause', color: 'orange' },
  succeeded: { icon: 'check', color: 'teal' },
  failed: { icon: 'cross', color: 'red' },
  stopped: { icon: 'stop', color: 'gray' },
};

export function isJobState(text: string): text is JobState {
  return (JOB_STATES as readonly string[]).includes(text);
}

export function Status({ state, size = 'md' }: { state: string; size?: 'sm' | 'md' | 'lg' }) {
  const t = useText(common);
  if (!isJobState(state)) return <Mark icon="info" color="gray" label={state} size={size} />;
  return <Mark icon={LOOK[state].icon} color={LOOK[state].color} label={t(state)} size={size} />;
}

/** Any other state of anything, drawn the same way. A plain element: tables draw hundreds of them while somebody scrolls. */
export function Mark({ icon, color, label, size = 'md' }: { icon: IconName; color: MantineColor; label: string; size?: 'sm' | 'md' | 'lg' }) {
  return (
    <span className={classes.mark} data-size={size} style={{ '--ground': `var(--mantine-color-${color}-light)`, '--letters': `var(--mantine-color-${color}-light-color)` } as CSSProperties}>
      <Icon name={icon} size={12} />
      <span>{label}</span>
    </span>
  );
}
