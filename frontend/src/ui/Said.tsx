/** A sentence of the server: commands and names of a file, between backticks, are drawn as such; times are in the reader's zone. */

import { Code } from '@mantine/core';

import { useFormat } from '@/text/format';
import { localized } from '@/text/moments';

type Sentence = string | null | undefined;

/** Several sentences are drawn one behind the other; one that is missing leaves no gap. */
export function Said({ text }: { text: Sentence | readonly Sentence[] }) {
  const format = useFormat();
  const whole = typeof text === 'object' && text !== null ? text.filter(Boolean).join(' ') : (text ?? '');
  const parts = localized(whole, format).split(/`([^`\n]+)`/);
  return <>{parts.map((part, index) => (index % 2 === 1 ? <Code key={index}>{part}</Code> : part))}</>;
}
