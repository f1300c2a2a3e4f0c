/** A share of something as a bar with its numbers in words: never the bar alone. */

import { Group, Progress, Stack, Text, type MantineColor } from '@mantine/core';

export interface Part {
  value: number;
  label: string;
  color: MantineColor;
}

export function Meter({ label, total, parts, words }: { label: string; total: number; parts: readonly Part[]; words: string }) {
  const safe = total > 0 ? total : 1;
  return (
    <Stack gap={4}>
      <Group justify="space-between" gap="xs">
        <Text size="sm" fw={500} style={{ overflowWrap: 'anywhere' }}>
          {label}
        </Text>
        <Text size="sm" c="dimmed">
          {words}
        </Text>
      </Group>
      <Progress.Root size="lg" role="group" aria-label={`${label}: ${words}`}>
        {parts.map((part) => (
          <Progress.Section key={part.label} value={Math.min(100, (part.value / safe) * 100)} color={part.color} aria-label={part.label} title={part.label} />
        ))}
      </Progress.Root>
    </Stack>
  );
}
