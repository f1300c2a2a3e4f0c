/** What the parts and marks of a bar mean. */

import { Group, Progress, Text } from '@mantine/core';

import { useText } from '@/text/language';

import { words } from './text';

export function Legend() {
  const t = useText(words);
  const parts = [
    { color: 'teal.7', isStriped: false, label: t('legendGuaranteed') },
    { color: 'blue.6', isStriped: false, label: t('legendOwed') },
    { color: 'gray.6', isStriped: false, label: t('legendByWeight') },
    { color: 'orange.6', isStriped: true, label: t('legendBorrowed') },
  ];
  return (
    <Group gap="lg" component="section" aria-label={t('legend')}>
      {parts.map((part) => (
        <Group key={part.color} gap={6} wrap="nowrap">
          <Progress w={28} value={100} color={part.color} striped={part.isStriped} aria-hidden="true" />
          <Text size="xs" c="dimmed">
            {part.label}
          </Text>
        </Group>
      ))}
      <Text size="xs" c="dimmed">
        {t('legendMarks')}
      </Text>
    </Group>
  );
}
