/** Two job files beside each other, with signs for what differs; on a phone one below the other, as lines that went and came. */

import { Paper, Text, Title } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useMemo } from 'react';

import { DiffView } from '@/pages/job/DiffView';
import { useText } from '@/text/language';

import classes from './Compare.module.css';
import { pairsOf, type Pair } from './pairs';
import { words } from './text';

const AROUND = 3;
const NARROW = '(max-width: 48em)';
const SIGNS = { same: '', changed: '≠', 'only-a': '−', 'only-b': '+' } as const satisfies Record<Pair['kind'], string>;

export function Files({ a, b, isWhole }: { a: string; b: string; isWhole: boolean }) {
  const t = useText(words);
  const isNarrow = useMediaQuery(NARROW);
  return (
    <Paper withBorder p="md" component="section" aria-label={t('specs')}>
      <Title order={2} size="h4" mb="sm">
        {t('specs')}
      </Title>
      {a === b && !isWhole ? <Text c="dimmed">{t('sameSpecs')}</Text> : isNarrow ? <DiffView older={a} newer={b} /> : <SideBySide a={a} b={b} isWhole={isWhole} />}
    </Paper>
  );
}

function SideBySide({ a, b, isWhole }: { a: string; b: string; isWhole: boolean }) {
  const t = useText(words);
  const blocks = useMemo(() => blocksOf(pairsOf(a, b), isWhole), [a, b, isWhole]);
  const names = { same: '', changed: t('changed'), 'only-a': t('onlyA'), 'only-b': t('onlyB') } satisfies Record<Pair['kind'], string>;
  return (
    <div className={classes.files} tabIndex={0} role="region" aria-label={t('specs')}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{t('runA')}</th>
            <th scope="col" className={classes.sign} aria-label={t('difference')} />
            <th scope="col">{t('runB')}</th>
          </tr>
        </thead>
        <tbody>
          {blocks.map((block, index) =>
            typeof block === 'number' ? (
              <tr key={index}>
                <td colSpan={3} className={classes.gap}>
                  ⋯ {t('leftOut', { count: block })}
                </td>
              </tr>
            ) : (
              <tr key={index} className={classes.row} data-kind={block.kind}>
                <td className={classes.a}>{block.a}</td>
                <td className={classes.sign}>
                  {block.kind !== 'same' && (
                    <span role="img" aria-label={names[block.kind]} title={names[block.kind]}>
                      {SIGNS[block.kind]}
                    </span>
                  )}
                </td>
                <td className={classes.b}>{block.b}</td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </div>
  );
}

/** Rows to show; a number stands for so many equal ones that are left out. */
function blocksOf(pairs: readonly Pair[], isWhole: boolean): (Pair | number)[] {
  if (isWhole) return [...pairs];
  const keep = new Set<number>();
  pairs.forEach((pair, index) => {
    if (pair.kind !== 'same') for (let at = index - AROUND; at <= index + AROUND; at += 1) keep.add(at);
  });
  const blocks: (Pair | number)[] = [];
  pairs.forEach((pair, index) => {
    const last = blocks.at(-1);
    if (keep.has(index)) blocks.push(pair);
    else if (typeof last === 'number') blocks[blocks.length - 1] = last + 1;
    else blocks.push(1);
  });
  return blocks;
}
