/** The frame of every page: its title, what can be done here, and what came of loading it. */

import { Group, Stack, Text, Title } from '@mantine/core';
import { useEffect, useRef, type ReactNode } from 'react';

import { useKeyboardKept } from './keyboard';

export function Page({ title, subtitle, actions, children, wide = false }: { title: string; subtitle?: ReactNode; actions?: ReactNode; children: ReactNode; wide?: boolean }) {
  useEffect(() => {
    document.title = `${title} · Berth`;
  }, [title]);
  const heading = useRef<HTMLHeadingElement>(null);
  const deeds = useKeyboardKept(heading);
  return (
    <Stack gap="lg" maw={wide ? undefined : 1440} mx="auto" w="100%">
      <Group justify="space-between" align="flex-start" gap="md">
        <div style={{ minWidth: 0, flex: '1 1 16rem' }}>
          <Title ref={heading} order={1} size="h2" tabIndex={-1} style={{ overflowWrap: 'anywhere' }}>
            {title}
          </Title>
          {subtitle && (
            <Text c="dimmed" component="div" mt={4}>
              {subtitle}
            </Text>
          )}
        </div>
        {actions && (
          <Group ref={deeds} gap="xs">
            {actions}
          </Group>
        )}
      </Group>
      {children}
    </Stack>
  );
}
