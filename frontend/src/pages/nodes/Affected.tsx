/** The jobs that run on a node, and what would become of each. */

import { Anchor, Table, Text } from '@mantine/core';
import { Link } from 'react-router';

import type { Schemas } from '@/api/client';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { words } from './text';

export type AffectedJob = Schemas['DrainOut']['jobs'][number];

export function Affected({ jobs, others = 0 }: { jobs: readonly AffectedJob[]; others?: number }) {
  const t = useText(words);
  const w = useText(common);
  return (
    <>
      <Table.ScrollContainer minWidth={420} mah={320}>
        <Table stickyHeader>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t('job')}</Table.Th>
              <Table.Th>{w('tenant')}</Table.Th>
              <Table.Th>{w('user')}</Table.Th>
              <Table.Th>{t('since')}</Table.Th>
              <Table.Th>{t('checkpoint')}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {jobs.map((row) => (
              <Table.Tr key={row.job.id}>
                <Table.Td>
                  <Anchor component={Link} to={`/jobs/${row.job.id}`} size="sm">
                    {row.job.name}
                  </Anchor>
                  {row.is_leaving && <Mark icon="hourglass" color="orange" label={t('leaving')} size="sm" />}
                </Table.Td>
                <Table.Td>{row.tenant}</Table.Td>
                <Table.Td>{row.user}</Table.Td>
                <Table.Td>
                  <When at={row.started_at} size="sm" />
                </Table.Td>
                <Table.Td>{row.checkpoint ? w('yes') : w('no')}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {others > 0 && (
        <Text size="sm" c="dimmed">
          {t('others', { count: others })}
        </Text>
      )}
    </>
  );
}
