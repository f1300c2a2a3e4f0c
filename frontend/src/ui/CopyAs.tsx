/** The same thing outside the portal: as a command, as curl, and in Python. Shown where something is read or done. */

import { ActionIcon, Button, Code, CopyButton, Group, SegmentedControl, Stack, Tooltip } from '@mantine/core';
import { useState } from 'react';

import { common } from '@/text/common';
import { useText } from '@/text/language';

import { Icon } from './Icon';
import { Window } from './Window';

export interface Ways {
  /** Left out where the command line has no word for it. */
  cli?: string;
  curl: string;
  python: string;
}

/** A word for a POSIX shell, quoted where it must be. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The curl of a call below /api/v1, with the token from the environment. */
export function curl(method: string, path: string, body?: unknown): string {
  const parts = [`curl -fsS${method === 'GET' ? '' : ` -X ${method}`} ${quote(`${location.origin}/api/v1${path}`)}`, `-H "Authorization: Bearer $BERTH_TOKEN"`];
  if (body !== undefined) parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(body))}`);
  return parts.join(' \\\n  ');
}

/** A value as Python writes it. */
export function python(value: unknown): string {
  if (value === null || value === undefined) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`;
  if (typeof value === 'object') return `{${Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}: ${python(inner)}`).join(', ')}}`;
  return JSON.stringify(value);
}

const WAYS = [
  { value: 'cli', label: 'CLI' },
  { value: 'curl', label: 'curl' },
  { value: 'python', label: 'Python' },
] as const satisfies readonly { value: keyof Ways; label: string }[];

export function CopyAs({ ways }: { ways: Ways | (() => Ways) }) {
  const t = useText(common);
  const [chosen, setChosen] = useState<keyof Ways>('cli');
  const [isOpen, setOpen] = useState(false);
  const found = isOpen ? (typeof ways === 'function' ? ways() : ways) : null;
  const offered = WAYS.filter(({ value }) => found?.[value] !== undefined);
  const way = found?.[chosen] === undefined ? 'curl' : chosen;
  const text = found?.[way] ?? '';
  return (
    <>
      <Button variant="default" leftSection={<Icon name="terminal" size={16} />} aria-haspopup="dialog" onClick={() => setOpen(true)}>
        CLI · curl · Python
      </Button>
      <Window opened={isOpen} onClose={() => setOpen(false)} title={t('asCommand')} size="xl">
        {found && (
          <Stack>
            <Group justify="space-between">
              <SegmentedControl
                value={way}
                onChange={(value) => setChosen(value as keyof Ways)}
                data={offered}
              />
              <CopyText text={text} />
            </Group>
            <Code block tabIndex={0} style={{ maxHeight: '50vh', overflow: 'auto' }}>
              {text}
            </Code>
          </Stack>
        )}
      </Window>
    </>
  );
}

/** A small button that copies a text and says so. */
export function CopyText({ text, label }: { text: string; label?: string }) {
  const t = useText(common);
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? t('copied') : (label ?? t('copy'))}>
          <ActionIcon variant="subtle" color={copied ? 'teal' : 'gray'} onClick={copy} aria-label={copied ? t('copied') : (label ?? t('copy'))}>
            <Icon name={copied ? 'check' : 'copy'} size={16} />
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}
