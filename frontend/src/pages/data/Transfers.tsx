/** What is on its way up, below the files: it goes on while one walks through folders. */

import { ActionIcon, Button, Group, Paper, Progress, Stack, Text, Title } from '@mantine/core';

import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Icon } from '@/ui/Icon';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';

import { words } from './text';
import { clearEnded, resume, stop, useUploads, type Upload } from './uploads';

const SHOWN = 50;
const LOOK = {
  waiting: { icon: 'hourglass', color: 'gray' },
  checking: { icon: 'search', color: 'cyan' },
  sending: { icon: 'play', color: 'blue' },
  done: { icon: 'check', color: 'teal' },
  failed: { icon: 'cross', color: 'red' },
  stopped: { icon: 'stop', color: 'gray' },
} as const;

export function Transfers() {
  const t = useText(words);
  const uploads = useUploads();
  if (uploads.length === 0) return null;
  const isAnyOver = uploads.some((upload) => upload.state === 'done' || upload.state === 'failed' || upload.state === 'stopped');
  return (
    <Paper withBorder p="md" mt="md" component="section" aria-label={t('transfers')}>
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={2} size="h5">
            {t('transfers')} ({uploads.filter((upload) => upload.state === 'done').length} / {uploads.length})
          </Title>
          {isAnyOver && (
            <Button size="compact-sm" variant="default" onClick={clearEnded}>
              {t('clear')}
            </Button>
          )}
        </Group>
        {[...uploads.filter((upload) => upload.state !== 'done'), ...uploads.filter((upload) => upload.state === 'done')].slice(0, SHOWN).map((upload) => (
          <One key={upload.key} upload={upload} />
        ))}
        <Text size="xs" c="dimmed">
          {t('transfersHint')}
        </Text>
      </Stack>
    </Paper>
  );
}

function One({ upload }: { upload: Upload }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const isOver = upload.state === 'done' || upload.state === 'failed' || upload.state === 'stopped';
  const share = upload.size > 0 ? upload.bytes / upload.size : upload.state === 'done' ? 1 : 0;
  return (
    <Stack gap={4}>
      <Group justify="space-between" wrap="nowrap">
        <Group gap="xs" wrap="nowrap" style={{ minWidth: 0 }}>
          <div style={{ flex: 'none' }}>
            <Mark {...LOOK[upload.state]} label={t(upload.state)} size="sm" />
          </div>
          <Text size="sm" truncate title={upload.path}>
            {upload.volumeName}:{upload.path}
          </Text>
        </Group>
        <Group gap="xs" wrap="nowrap">
          <Text size="sm" c="dimmed" style={{ whiteSpace: 'nowrap' }}>
            {isOver ? format.bytes(upload.size) : `${format.percent(share)} · ${format.bytes(upload.size)}`}
          </Text>
          {!isOver && (
            <ActionIcon variant="subtle" color="gray" aria-label={t('stop', { name: upload.path })} onClick={() => stop(upload.key)}>
              <Icon name="cross" size={14} />
            </ActionIcon>
          )}
          {(upload.state === 'failed' || upload.state === 'stopped') && (
            <ActionIcon variant="subtle" aria-label={t('resume', { name: upload.path })} title={c('retry')} onClick={() => resume(upload.key)}>
              <Icon name="refresh" size={14} />
            </ActionIcon>
          )}
        </Group>
      </Group>
      {!isOver && <Progress value={share * 100} size="sm" color={upload.state === 'checking' ? 'cyan' : 'berth'} aria-label={`${upload.path}: ${t(upload.state)}`} />}
      {upload.problem && (
        <Text size="xs" c="red">
          <Said text={[upload.problem.detail || upload.problem.title, upload.problem.hint]} />
        </Text>
      )}
    </Stack>
  );
}
