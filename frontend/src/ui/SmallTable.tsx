/** A table of a few dozen rows that scrolls sideways on a phone. */

import { Table } from '@mantine/core';
import type { ReactNode } from 'react';

export function SmallTable({ label, head, children, minWidth = 560 }: { label: string; head: readonly ReactNode[]; children: ReactNode; minWidth?: number }) {
  return (
    <Table.ScrollContainer minWidth={minWidth}>
      <Table highlightOnHover verticalSpacing="xs" aria-label={label}>
        <Table.Thead>
          <Table.Tr>
            {head.map((cell, index) => (
              <Table.Th key={index}>{cell}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
