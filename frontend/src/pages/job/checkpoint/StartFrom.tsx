/** Whether a new job goes on from the checkpoint of the one that it repeats: a switch over one key of the job file. */

import { Switch } from '@mantine/core';

import { change, isRecord, parse, read } from '@/pages/submit/spec';
import { useText } from '@/text/language';

import { words } from './text';

/** `text`: the new job's file. Nothing is shown where it keeps no checkpoint, or cannot be read; into a mount nothing is copied. */
export function StartFrom({ job, text, onText }: { job: string; text: string; onText: (text: string) => void }) {
  const t = useText(words);
  const checkpoint = read(parse(text))?.checkpoint;
  if (!isRecord(checkpoint) || typeof checkpoint.path !== 'string' || !checkpoint.path || checkpoint.path.startsWith('/')) return null;
  return (
    <Switch
      label={t('useIt')}
      description={t('useHint')}
      checked={checkpoint.from === job}
      onChange={(event) => onText(change(text, ['checkpoint', 'from'], event.currentTarget.checked ? job : undefined))}
    />
  );
}
