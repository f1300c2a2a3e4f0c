/** A framed part of the page with a heading and its way to all of it. */

import { Anchor, Group, Paper, Stack, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

export function Card({ title, to, more, children }: { title: string; to?: string; more?: string; children: ReactNode }) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Stack gap="sm">
        <Group justify="space-between" wrap="nowrap">
          <Title order={2} size="h5">
            {title}
          </Title>
          {to && more && (
            <Anchor component={Link} to={to} size="sm" style={{ whiteSpace: 'nowrap' }}>
              {more}
            </Anchor>
          )}
        </Group>
        {children}
      </Stack>
    </Paper>
  );
}
