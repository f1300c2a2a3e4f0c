/** One queue's standing in one pool as a bar on the pool's scale, with marks for its promises, and all of it in words below. */

import { Box, Progress, Stack, Text } from '@mantine/core';

import type { Resource } from '@/api/fleet';
import { useFormat, type Format } from '@/text/format';
import { useText } from '@/text/language';

import classes from './Bar.module.css';
import type { Standing } from './lending';
import { words } from './text';

export function amount(format: Format, resource: Resource, value: number): string {
  return resource === 'memory_bytes' ? format.bytes(value) : format.milli(value);
}

export function Bar({ name, standing, capacity, resource, lentBy }: { name: string; standing: Standing; capacity: number; resource: Resource; lentBy?: string }) {
  const t = useText(words);
  const format = useFormat();
  const say = (value: number) => amount(format, resource, value);
  const scale = Math.max(capacity, standing.used, standing.deserved, 1);
  const percent = (value: number) => (value / scale) * 100;
  const marks = [
    { letter: 'G', at: standing.guarantee },
    { letter: 'D', at: standing.deserved > standing.guarantee ? standing.deserved : 0 },
    { letter: 'C', at: standing.ceiling !== null && standing.ceiling <= scale ? standing.ceiling : 0 },
  ].filter((mark) => mark.at > 0);
  const parts = [
    { value: standing.guaranteed, label: t('partGuaranteed', { n: say(standing.guaranteed) }), color: 'teal.7', isStriped: false },
    { value: standing.owed, label: t(standing.isPromised ? 'partOwed' : 'partByWeight', { n: say(standing.owed) }), color: standing.isPromised ? 'blue.6' : 'gray.6', isStriped: false },
    { value: standing.borrowed, label: t('partBorrowed', { n: say(standing.borrowed) }), color: 'orange.6', isStriped: true },
  ].filter((part) => part.value > 0);
  const facts = [
    t('used', { used: say(standing.used) }),
    standing.guarantee > 0 && t('guarantee', { n: say(standing.guarantee) }),
    standing.deserved > standing.guarantee && t('deserved', { n: say(standing.deserved) }),
    standing.ceiling === null ? t('noCeiling') : t('ceiling', { n: say(standing.ceiling) }),
    standing.borrowed > 0 && t('borrowed', { n: say(standing.borrowed) }),
    standing.lends > 0 && t('lends', { n: say(standing.lends) }),
  ].filter(Boolean);
  return (
    <Stack gap={2}>
      <Box className={classes.track}>
        {marks.map((mark) => (
          <span key={mark.letter} className={classes.mark} style={{ left: `min(${percent(mark.at)}%, calc(100% - 2px))` }} aria-hidden="true">
            <span className={classes.letter}>{mark.letter}</span>
          </span>
        ))}
        <Progress.Root size="lg" role="group" aria-label={`${name}: ${facts.join(', ')}`}>
          {parts.map((part) => (
            <Progress.Section key={part.color} value={percent(part.value)} color={part.color} striped={part.isStriped} aria-label={part.label} title={part.label} />
          ))}
        </Progress.Root>
      </Box>
      <Text size="xs" c="dimmed">
        {facts.join(' · ')}
        {standing.borrowed > 0 && lentBy ? ` · ${t('lentBy', { names: lentBy })}` : ''}
      </Text>
    </Stack>
  );
}
