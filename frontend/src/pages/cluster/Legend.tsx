/** What the cells of the map mean: pattern, letter and colour. */

import { Group, Text } from '@mantine/core';

import { useText } from '@/text/language';

import type { Cell, CellKind } from './cells';
import { GpuCell } from './GpuCell';
import { words } from './text';

const TENANTS_SHOWN = 6;

function sample(kind: CellKind, tenant: string | null = null): Cell {
  const occupant = tenant === null ? null : { index: 0, identifier: '', model: '', is_healthy: true, is_simulated: false, holders: 1, held: true, held_millis: 1000, job_id: null, job_name: null, tenant, user: null, utilisation: 0.6 };
  return { index: 0, kind, occupant, share: 1000 };
}

export function Legend({ tenants }: { tenants: readonly string[] }) {
  const t = useText(words);
  const entries: [Cell, string][] = [
    [sample('free'), t('legendFree')],
    ...tenants.slice(0, TENANTS_SHOWN).map((tenant): [Cell, string] => [sample('used', tenant), tenant]),
    [sample('other'), tenants.length === 0 ? t('inUse') : t('legendOther')],
    [sample('closed'), t('legendClosed')],
    [sample('broken'), t('legendBroken')],
  ];
  return (
    <Group gap="md" component="section" aria-label={t('legend')}>
      {entries.map(([cell, label]) => (
        <Group key={label} gap={5} wrap="nowrap">
          <GpuCell cell={cell} />
          <Text size="xs" c="dimmed">
            {label}
          </Text>
        </Group>
      ))}
      {tenants.length > 0 && (
        <Text size="xs" c="dimmed">
          {t('legendBusy')}
        </Text>
      )}
    </Group>
  );
}
