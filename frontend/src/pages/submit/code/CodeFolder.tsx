/** How far the folder is that the job runs in, and what of it stays at home. */

import { ActionIcon, Alert, Button, Group, Paper, Progress, Stack, Text } from '@mantine/core';

import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';

import { IGNORE_FILE } from './ignoring';
import { FILES_MAX, PACKED_MAX } from './packing';
import { words } from './text';
import type { CodeFolder as Folder, Trouble } from './useCodeFolder';

export function CodeFolder({ folder, remove, retry }: { folder: Folder; remove: () => void; retry: (() => void) | null }) {
  const t = useText(words);
  const format = useFormat();
  const { name, state } = folder;
  const isOver = state === 'done' || state === 'failed';
  return (
    <Paper withBorder p="sm" component="section" aria-label={t('label', { name })}>
      <Group align="flex-start" wrap="nowrap" gap="sm">
        <Icon name={state === 'done' ? 'check' : state === 'failed' ? 'alert' : 'hourglass'} size={18} />
        <Stack gap={6} style={{ flex: 1, minWidth: 0 }}>
          {state === 'failed' && folder.trouble ? (
            <Failure name={name} trouble={folder.trouble} retry={retry} />
          ) : (
            <Text size="sm" role="status" style={{ overflowWrap: 'anywhere' }}>
              {state === 'done' ? t('done', { name, count: folder.files, size: format.bytes(folder.bytes), packed: format.bytes(folder.packed) }) : t(state === 'failed' ? 'reading' : state, { name })}
            </Text>
          )}
          {!isOver && state !== 'reading' && <Progress value={folder.share * 100} size="sm" aria-label={t(state, { name })} />}
          {folder.left > 0 && (
            <Text size="xs" c="dimmed">
              {t(folder.isSaid ? 'left' : 'leftByDefault', { count: folder.left, file: IGNORE_FILE })}
            </Text>
          )}
        </Stack>
        {isOver ? (
          <ActionIcon variant="subtle" color="gray" aria-label={t('remove')} onClick={remove}>
            <Icon name="cross" size={16} />
          </ActionIcon>
        ) : (
          <Button size="compact-sm" variant="default" onClick={remove}>
            {t('stop')}
          </Button>
        )}
      </Group>
    </Paper>
  );
}

function Failure({ name, trouble, retry }: { name: string; trouble: Trouble; retry: (() => void) | null }) {
  const t = useText(words);
  const format = useFormat();
  if (trouble.kind === 'error') return <ProblemView error={trouble.error} title={t('failed', { name })} retry={retry ?? undefined} />;
  return (
    <Alert color="red" title={t('failed', { name })} p="xs">
      {t(trouble.kind, { count: format.number(FILES_MAX), size: format.bytes(PACKED_MAX), file: IGNORE_FILE })}
    </Alert>
  );
}
