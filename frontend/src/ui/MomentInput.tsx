/** A moment, typed as the clock of the reader's zone shows it. Where clocks change, a time that is none, or two, is never guessed. */

import { Group, Radio, Stack, TextInput, type StyleProp } from '@mantine/core';
import { useEffect, useRef, useState, type ReactNode } from 'react';

import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { useZone } from '@/text/zone';

import { words } from './momentText';
import { momentsOf, toLocalInput } from './moments';

/** A time as the API takes it; empty: nothing was typed; null: what was typed is no moment, or two and neither is chosen yet. */
export type TypedMoment = string | null;

interface Props {
  label: string;
  description?: string;
  value: TypedMoment;
  onChange: (value: TypedMoment) => void;
  error?: ReactNode;
  required?: boolean;
  w?: StyleProp<number>;
}

export function MomentInput({ label, description, value, onChange, error, required, w }: Props) {
  const t = useText(words);
  const zone = useZone();
  const { zoneName } = useFormat();
  const input = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState<{ text: string; value: TypedMoment; zone: string | undefined } | null>(null);
  const isTyped = typed !== null && typed.zone === zone && (typed.value ?? '') === (value ?? ''); // Else it was changed from outside since.
  const text = isTyped ? typed.text : toLocalInput(value ?? '', zone);
  const found = momentsOf(text, zone);
  const pair = found && 'two' in found ? found.two : null;
  const chosen = pair?.find(({ iso }) => toLocalInput(iso, 'UTC') === toLocalInput(value ?? '', 'UTC'));

  const time = text.replace('T', ' ');
  const short = (other: string) => (other.slice(0, 10) === text.slice(0, 10) ? other.slice(11) : other.replace('T', ' '));
  let problem = '';
  if (pair && !chosen) problem = t('twice', { time, zone: zoneName });
  if (found && 'none' in found) problem = t('leftOut', { time, zone: zoneName, before: short(found.none.before), from: short(found.none.from), to: short(found.none.to) });
  useEffect(() => input.current?.setCustomValidity(problem), [problem]); // A form is not sent with it.

  const put = (next: string, moment: TypedMoment) => {
    setTyped({ text: next, value: moment, zone });
    onChange(moment);
  };
  const type = (next: string) => {
    const moments = momentsOf(next, zone);
    put(next, moments === null ? '' : 'one' in moments ? moments.one : null);
  };
  return (
    <Stack gap={6} w={w}>
      <TextInput ref={input} type="datetime-local" max="9999-12-31T23:59" label={label} description={description} value={text} onChange={(event) => type(event.currentTarget.value)} error={problem || error} required={required} />
      {pair && (
        <Radio.Group size="xs" label={t('which', { time: text.slice(11) })} value={chosen?.iso ?? ''} onChange={(iso) => put(text, iso)} required>
          <Group gap="xs">
            {pair.map(({ iso, distance }, index) => (
              <Radio key={iso} size="xs" value={iso} label={t(index === 0 ? 'first' : 'second', { distance })} />
            ))}
          </Group>
        </Radio.Group>
      )}
    </Stack>
  );
}
