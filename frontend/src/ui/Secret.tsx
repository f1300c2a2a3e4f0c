/** A text to be taken away now, with the button that copies it: a token, a code, a link. */

import { Code, Group } from '@mantine/core';

import { CopyText } from './CopyAs';

export function Secret({ text }: { text: string }) {
  return (
    <Group gap={4} wrap="nowrap" align="flex-start">
      <Code block tabIndex={0} style={{ flex: 1, minWidth: 0, overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
        {text}
      </Code>
      <CopyText text={text} />
    </Group>
  );
}
