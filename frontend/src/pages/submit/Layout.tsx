/** What the framework makes of the job: roles in the order of their start, their variables, and whose end decides. */

import { Accordion, Code, Stack, Table, Text } from '@mantine/core';

import type { Schemas } from '@/api/client';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';

import { words } from './text';

export type Layout = Schemas['LayoutOut'];
type Role = Layout['roles'][number];

/** Nothing where the tasks are the command alone: the plan has said that already. */
export function LayoutView({ layout }: { layout: Layout }) {
  const t = useText(words);
  if (!layout.roles.some((role) => Object.keys(role.environment).length > 0 || role.beside.length > 0 || role.starts_after.length > 0)) return null;
  return (
    <Accordion variant="contained" chevronPosition="left">
      <Accordion.Item value="layout">
        <Accordion.Control>
          <Text size="sm" fw={600}>
            {t('layoutTitle')}
          </Text>
        </Accordion.Control>
        <Accordion.Panel>
          <Stack gap="sm">
            {layout.roles.map((role) => (
              <RoleTable key={role.role} role={role} />
            ))}
            <Text size="sm">{layout.chief ? t('layoutChief', { role: layout.chief }) : t('layoutAll')}</Text>
          </Stack>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}

function RoleTable({ role }: { role: Role }) {
  const t = useText(words);
  const format = useFormat();
  const facts: [string, string][] = [
    [t('layoutAfter'), role.starts_after.join(', ')],
    [t('layoutWaits'), role.waits_for.join(', ')],
    [t('layoutReady'), role.ready_when],
    [t('layoutRetry'), role.max_retry > 0 ? format.number(role.max_retry) : ''],
    [t('layoutProcesses'), role.processes > 1 ? format.number(role.processes) : ''],
    [t('layoutNeeds'), role.installs.join(', ')],
    [t('layoutPorts'), role.ports.join(', ')],
  ];
  const programs: [string, string][] = [
    ...role.beside.map((argv): [string, string] => [t('layoutBeside'), argv.join(' ')]),
    ...Object.entries(role.environment).sort(([one], [other]) => (one < other ? -1 : 1)),
    ...role.secrets.map((name): [string, string] => [name, '•••']),
  ];
  return (
    <Table.ScrollContainer minWidth={300}>
      <Table verticalSpacing={2} horizontalSpacing={6} fz="xs" captionSide="top">
        <Table.Caption ta="left" mt={0}>
          {role.role} · {t('planTasks', { count: role.count })}
        </Table.Caption>
        <Table.Tbody>
          {facts
            .filter(([, value]) => value)
            .map(([label, value]) => (
              <Table.Tr key={label}>
                <Table.Th w={150}>{label}</Table.Th>
                <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
              </Table.Tr>
            ))}
          {programs.map(([label, value], index) => (
            <Table.Tr key={`${label}-${index}`}>
              <Table.Th w={150}>{label}</Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                <Code>{value}</Code>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
