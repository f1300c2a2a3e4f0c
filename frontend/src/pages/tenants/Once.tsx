/** Something secret that is shown once: a token, the code of an invitation. Closing it is a deed of its own. */

import { Alert, Button, Group, Stack, Text } from '@mantine/core';

import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Icon } from '@/ui/Icon';
import { Secret } from '@/ui/Secret';

import { words } from './text';

export function Once({ title, until, parts, close }: { title: string; until?: string; parts: readonly { label: string; text: string }[]; close: () => void }) {
  const t = useText(words);
  const format = useFormat();
  return (
    <Stack>
      <Alert color="yellow" icon={<Icon name="key" />} title={title} role="status">
        {t('onceHint')} {until && t('until', { time: format.timeWithZone(until) })}
      </Alert>
      {parts.map((part) => (
        <Stack key={part.label} gap={4}>
          <Text size="sm" fw={600}>
            {part.label}
          </Text>
          <Secret text={part.text} />
        </Stack>
      ))}
      <Group justify="flex-end">
        <Button onClick={close}>{t('finished')}</Button>
      </Group>
    </Stack>
  );
}
