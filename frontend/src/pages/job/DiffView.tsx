/** Two texts as lines that went and came: with signs, not by colour alone. Long runs of what stayed are left out. */

import { Box, Text } from '@mantine/core';

import { useText } from '@/text/language';

import { diffLines, type DiffLine } from './diff';
import classes from './DiffView.module.css';
import { words } from './text';

const AROUND = 3;
const SIGNS = { same: ' ', old: '−', new: '+' } as const;

export function DiffView({ older, newer }: { older: string; newer: string }) {
  const t = useText(words);
  const lines = diffLines(older, newer);
  if (lines.every((line) => line.kind === 'same')) return <Text c="dimmed">{t('noChanges')}</Text>;
  return (
    <Box className={classes.diff} tabIndex={0} role="region" aria-label={t('changes')}>
      {near(lines).map((line, index) => (
        <div key={index} className={classes.line} data-kind={line?.kind ?? 'gap'}>
          {line ? `${SIGNS[line.kind]} ${line.text}` : '⋯'}
        </div>
      ))}
    </Box>
  );
}

/** Changed lines with a few around them; null stands for what is left out. */
function near(lines: readonly DiffLine[]): (DiffLine | null)[] {
  const keep = new Set<number>();
  lines.forEach((line, index) => {
    if (line.kind !== 'same') for (let at = index - AROUND; at <= index + AROUND; at += 1) keep.add(at);
  });
  const shown: (DiffLine | null)[] = [];
  lines.forEach((line, index) => {
    if (keep.has(index)) shown.push(line);
    else if (shown.at(-1) !== null) shown.push(null);
  });
  return shown;
}
