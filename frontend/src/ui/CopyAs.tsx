/** The same thing outside the portal: as a command, as curl, and in Python. Shown where something is read or done. */

import { ActionIcon, Button, Code, CopyButton, Group, Modal, SegmentedControl, Stack, Tooltip } from '@mantine/core';
import { useState } from 'react';

import { common } from '@/text/common';
import { useText } from '@/text/language';

import { Icon } from './Icon';

export interface Ways {
  cli: string;
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

export function CopyAs({ ways }: { ways: Ways | (() => Ways) }) {
  const t = useText(common);
  const [way, setWay] = useState<keyof Ways>('cli');
  const [isOpen, setOpen] = useState(false);
  const found = isOpen ? (typeof ways === 'function' ? ways() : ways) : null;
  return (
    <>
      <Button variant="default" leftSection={<Icon name="terminal" size={16} />} onClick={() => setOpen(true)}>
        CLI · curl · Python
      </Button>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={t('asCommand')} size="xl" closeButtonProps={{ 'aria-label': t('close') }}>
        {found && (
          <Stack>
            <Group justify="space-between">
              <SegmentedControl
                value={way}
                onChange={(value) => setWay(value as keyof Ways)}
                data={[
                  { value: 'cli', label: 'CLI' },
                  { value: 'curl', label: 'curl' },
                  { value: 'python', label: 'Python' },
                ]}
              />
              <CopyText text={found[way]} />
            </Group>
            <Code block tabIndex={0} style={{ maxHeight: '50vh', overflow: 'auto' }}>
              {found[way]}
            </Code>
          </Stack>
        )}
      </Modal>
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
