/** One GPU as a small square: a letter, a pattern and a colour say the same thing, and its title says it in words. */

import { useMantineTheme } from '@mantine/core';

import { useFormat } from '@/text/format';
import { useText } from '@/text/language';

import { hue, type Cell } from './cells';
import classes from './Map.module.css';
import { words } from './text';

/** What a GPU does, in words; `isShort`: beside its number and its job. */
export function useCellWords(): (cell: Cell, isShort?: boolean) => string {
  const t = useText(words);
  const format = useFormat();
  return (cell, isShort = false) => {
    const index = cell.index;
    if (cell.kind === 'broken') return isShort ? t('legendBroken') : t('gpuBroken', { index });
    if (cell.kind === 'free') return isShort ? t('legendFree') : t('gpuFree', { index });
    if (cell.kind === 'closed') return isShort ? t('legendClosed') : t('gpuClosed', { index });
    const { occupant } = cell;
    const who = occupant?.tenant ? isShort ? [occupant.tenant, occupant.user].filter(Boolean).join(' · ') : t('byJob', { tenant: occupant.tenant, user: occupant.user ?? '–', job: occupant.job_name ?? '–' }) : occupant ? t('byAnother') : t('inUse');
    const extras = [cell.share < 1000 && t('part', { n: format.milli(cell.share) }), occupant?.utilisation !== null && occupant?.utilisation !== undefined && t('utilised', { percent: format.percent(occupant.utilisation) })].filter(Boolean);
    const what = [who, ...extras].join(', ');
    return isShort ? what : t('gpuUsed', { index, what });
  };
}

export function GpuCell({ cell, title }: { cell: Cell; title?: string }) {
  const theme = useMantineTheme();
  const { kind, occupant } = cell;
  const letter = kind === 'used' ? ([...(occupant?.tenant ?? '?')][0] ?? '?').toUpperCase() : kind === 'broken' ? '!' : kind === 'closed' ? '×' : kind === 'other' ? '•' : '';
  const color = kind === 'used' ? theme.colors[hue(occupant?.tenant ?? '')]?.[8] : undefined;
  return (
    <span className={`${classes.cell} ${kind === 'free' ? '' : (classes[kind] ?? '')}`} style={color ? { background: color } : undefined} title={title} aria-hidden="true">
      {letter}
      {occupant?.utilisation ? <span className={classes.busy} style={{ width: `${Math.round(Math.min(1, occupant.utilisation) * 100)}%` }} /> : null}
    </span>
  );
}
