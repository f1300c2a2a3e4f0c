/** One node close up: each GPU with who is on it. */

import { Anchor, Button, Drawer, Group, Stack, Table, Text } from '@mantine/core';
import { Link } from 'react-router';

import type { FleetNode } from '@/api/fleet';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { useEscape } from '@/ui/escape';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';
import { useFocusBack } from '@/ui/Window';

import { cellsOf, type Occupied } from './cells';
import { GpuCell, useCellWords } from './GpuCell';
import { useNodeState } from './NodeMap';
import { words } from './text';

export function NodeDetails({ node, occupied, close }: { node: FleetNode; occupied: Occupied | undefined; close: () => void }) {
  const t = useText(words);
  const w = useText(common);
  useFocusBack(true);
  useEscape(true, close);
  const format = useFormat();
  const { isOperator } = useSession();
  const say = useCellWords();
  const state = useNodeState()(node);
  const isFine = node.ready && !node.cordoned;
  return (
    <Drawer opened onClose={close} closeOnEscape={false} position="right" size="md" title={t('details', { name: node.name })} closeButtonProps={{ 'aria-label': w('close') }}>
      <Stack>
        <Group gap="xs">
          <Mark icon={isFine ? 'check' : node.ready ? 'pause' : 'alert'} color={isFine ? 'teal' : node.ready ? 'orange' : 'red'} label={state} />
          {node.gpus_simulated && <Mark icon="info" color="grape" label={w('simulated')} />}
          <Text size="sm" c="dimmed">
            {node.cluster.name}/{node.pool.name} {node.gpu_model}
          </Text>
        </Group>
        {(node.cordon_reason ?? node.reason) && (
          <Text size="sm">
            {[node.cordon_reason, node.reason].filter(Boolean).join('; ')} {node.cordoned_by ? `(${t('cordonedBy', { user: node.cordoned_by })})` : ''}
          </Text>
        )}
        <Text size="sm">{t('cpuOnly', { used: format.milli(node.allocated.cpu_millis), all: format.milli(node.capacity.cpu_millis) })} · {format.bytes(node.allocated.memory_bytes)} / {format.bytes(node.capacity.memory_bytes)}</Text>
        {node.gpus.length > 0 && (
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th w={70}>GPU</Table.Th>
                <Table.Th>{t('use')}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {cellsOf(node, occupied).map((cell) => (
                <Table.Tr key={cell.index}>
                  <Table.Td>
                    <Group gap={6} wrap="nowrap">
                      <GpuCell cell={cell} />
                      <span>{cell.index}</span>
                    </Group>
                  </Table.Td>
                  <Table.Td>
                    {cell.occupant?.job_id && (
                      <Anchor component={Link} to={`/jobs/${cell.occupant.job_id}`} size="sm" fw={500}>
                        {cell.occupant.job_name}
                      </Anchor>
                    )}
                    <Text size="sm">{say(cell, true)}</Text>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
        <Text size="xs" c="dimmed">
          {t('lastSeen')} <When at={node.last_seen_at} size="xs" />
        </Text>
        {isOperator && (
          <Button component={Link} to={`/nodes/${node.id}`} variant="default">
            {t('toNode')}
          </Button>
        )}
      </Stack>
    </Drawer>
  );
}
