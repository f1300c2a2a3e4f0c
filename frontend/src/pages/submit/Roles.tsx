/** The tasks of a job: how many of each role, what one of them needs, and what it runs. */

import { ActionIcon, Autocomplete, Button, Group, Paper, SimpleGrid, Stack, Text } from '@mantine/core';

import { useText } from '@/text/language';
import { Icon } from '@/ui/Icon';

import { listOf, textOf, type Edit, type Offers } from './edit';
import { AreaField, NumberField, TextField } from './fields';
import { isRecord, pointerOf, roleBase, rolesOf, type Plain } from './spec';
import { words } from './text';

const ROLE_NAME = /^[a-z]([a-z0-9-]*[a-z0-9])?$/;

export function Roles({ edit, offers }: { edit: Edit; offers: Offers }) {
  const t = useText(words);
  const roles = rolesOf(edit.values);
  const isNamed = isRecord(edit.values.roles);
  const problem = edit.problem('/roles');
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Text fw={600} component="h2" size="md">
          {t('tasks')}
        </Text>
        <Button size="compact-sm" variant="subtle" leftSection={<Icon name="submit" size={14} />} onClick={edit.addRole}>
          {t('addRole')}
        </Button>
      </Group>
      {problem && (
        <Text size="sm" c="red" role="alert">
          {problem}
        </Text>
      )}
      {roles.map(({ name, role }, index) => (
        <Role key={index} name={name} role={role} isNamed={isNamed} isOnly={roles.length === 1} edit={edit} offers={offers} />
      ))}
    </Stack>
  );
}

function Role({ name, role, isNamed, isOnly, edit, offers }: { name: string; role: Record<string, Plain>; isNamed: boolean; isOnly: boolean; edit: Edit; offers: Offers }) {
  const t = useText(words);
  const base = roleBase(edit.values, name);
  const at = (...parts: string[]) => pointerOf([...base, ...parts]);
  const resources = isRecord(role.resources) ? role.resources : {};
  const gpu = gpuOf(resources.gpu);
  const setGpu = (count: number | undefined, model: string) => edit.set([...base, 'resources', 'gpu'], count === undefined || count === 0 ? undefined : model ? `${model}:${count}` : count);
  const script = scriptOf(role.command);
  const range = isRecord(role.replicas) ? role.replicas : null;
  return (
    <Paper withBorder={isNamed} p={isNamed ? 'sm' : 0} component="fieldset" m={0} style={isNamed ? undefined : { border: 0 }} aria-label={`${t('role')} ${name}`} miw={0}>
      <Stack gap="sm">
        {isNamed && (
          <Group align="flex-end" wrap="nowrap">
            <TextField
              label={t('role')}
              value={name}
              onText={(text) => (ROLE_NAME.test(text) ? edit.rename(['roles', name], text) : undefined)}
              error={edit.problem(at())}
              style={{ flex: 1 }}
            />
            {!isOnly && (
              <ActionIcon variant="subtle" color="red" size="lg" aria-label={t('removeRole', { name })} title={t('removeRole', { name })} onClick={() => edit.set(['roles', name], undefined)}>
                <Icon name="trash" />
              </ActionIcon>
            )}
          </Group>
        )}
        <SimpleGrid type="container" cols={{ base: 2, '430px': 4 }} spacing="sm">
          {range ? (
            <TextField label={t('replicas')} value={t('replicasRange', { min: textOf(range.min), max: textOf(range.max) })} onText={() => undefined} readOnly error={edit.problem(at('replicas'), true)} />
          ) : (
            <NumberField label={t('replicas')} value={typeof role.replicas === 'number' ? role.replicas : 1} min={1} max={10_000} allowDecimal={false} onNumber={(count) => edit.set([...base, 'replicas'], count ?? undefined)} error={edit.problem(at('replicas'))} />
          )}
          <NumberField label={t('gpu')} value={gpu.count} min={0} max={10_000} step={1} onNumber={(count) => setGpu(count, gpu.model)} error={edit.problem(at('resources', 'gpu'))} />
          <NumberField label={t('cpu')} value={coresOf(resources.cpu)} min={0} max={100_000} step={1} placeholder="1" onNumber={(cores) => edit.set([...base, 'resources', 'cpu'], cores)} error={edit.problem(at('resources', 'cpu'))} />
          <TextField label={t('memory')} value={textOf(resources.memory)} placeholder="2Gi" title={t('memoryHint')} onText={(text) => edit.set([...base, 'resources', 'memory'], memoryOf(text))} error={edit.problem(at('resources', 'memory'))} />
        </SimpleGrid>
        {(gpu.model !== '' || (gpu.count > 0 && offers.models.length > 0)) && (
          <Autocomplete label={t('gpuModel')} placeholder={t('any')} data={offers.models} value={gpu.model} onChange={(model) => setGpu(gpu.count || 1, model.trim())} maw={220} />
        )}
        {edit.problem(at('resources')) && (
          <Text size="sm" c="red" role="alert">
            {edit.problem(at('resources'))}
          </Text>
        )}
        {Array.isArray(role.command) && script === undefined ? (
          <AreaField label={t('command')} description={t('commandList')} value={JSON.stringify(role.command)} onText={() => undefined} readOnly autosize maxRows={6} error={edit.problem(at('command'), true)} classNames={{ input: 'berth-code' }} />
        ) : (
          <AreaField
            label={t('command')}
            description={script === undefined ? t('commandHint') : t('commandBy', { program: listOf(role.command).slice(0, -1).join(' ') })}
            value={script ?? textOf(role.command)}
            onText={(text) => (script === undefined ? edit.set([...base, 'command'], text === '' ? undefined : text) : edit.set([...base, 'command', listOf(role.command).length - 1], text))}
            autosize
            minRows={3}
            maxRows={18}
            spellCheck={false}
            required
            styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
            error={edit.problem(at('command'), script !== undefined)}
          />
        )}
      </Stack>
    </Paper>
  );
}

/** The text of a list such as `[/bin/bash, -c, text]`, which is a script like any other. */
function scriptOf(command: Plain | undefined): string | undefined {
  const words = listOf(command);
  return words.length > 2 && words.at(-2) === '-c' ? words.at(-1) : undefined;
}

function gpuOf(value: Plain | undefined): { count: number; model: string } {
  if (typeof value === 'number') return { count: value, model: '' };
  if (typeof value !== 'string') return { count: 0, model: '' };
  const at = value.lastIndexOf(':');
  const count = Number(at === -1 ? value : value.slice(at + 1));
  return { count: Number.isFinite(count) ? count : 0, model: at === -1 ? '' : value.slice(0, at) };
}

function coresOf(value: Plain | undefined): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string' || value === '') return undefined;
  const count = value.endsWith('m') ? Number(value.slice(0, -1)) / 1000 : Number(value);
  return Number.isFinite(count) ? count : undefined;
}

function memoryOf(text: string): Plain | undefined {
  const clean = text.trim();
  if (clean === '') return undefined;
  return /^[0-9]+$/.test(clean) && Number.isSafeInteger(Number(clean)) ? Number(clean) : clean;
}
