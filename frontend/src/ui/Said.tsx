/** A sentence in which commands and names of a file stand between backticks: those are drawn as such, and the signs are not. */

import { Code } from '@mantine/core';

type Sentence = string | null | undefined;

/** Several sentences are drawn one behind the other; one that is missing leaves no gap. */
export function Said({ text }: { text: Sentence | readonly Sentence[] }) {
  const whole = typeof text === 'object' && text !== null ? text.filter(Boolean).join(' ') : (text ?? '');
  const parts = whole.split(/`([^`\n]+)`/);
  return <>{parts.map((part, index) => (index % 2 === 1 ? <Code key={index}>{part}</Code> : part))}</>;
}
