/** What most jobs leave as it is: variables, secrets, code, volumes, time, retries, order. */

import { Accordion, ActionIcon, Alert, Anchor, Autocomplete, Button, Checkbox, Group, MultiSelect, NativeSelect, SimpleGrid, Stack, TagsInput, Text } from '@mantine/core';

import { useEffect, useState } from 'react';

import type { FieldProblem } from '@/api/problem';
import { useText } from '@/text/language';
import { Icon } from '@/ui/Icon';
import { Said } from '@/ui/Said';

import { secretsWritten } from './draft';
import { listOf, textOf, type Edit, type Offers } from './edit';
import { NumberField, TextField } from './fields';
import { NameField } from './NameField';
import { isRecord, pointerOf } from './spec';
import { words } from './text';

const CLASSES = ['user', 'oom', 'platform', 'unknown', 'hang', 'deadline'] as const;
const PRIORITIES = ['low', 'normal', 'high', 'urgent'] as const;

/** The sections that are open at first: those in which something stands. */
export function openSections(values: Record<string, unknown>): string[] {
  const has = (...keys: string[]) => keys.some((key) => values[key] !== undefined && values[key] !== null);
  return [...(has('env', 'secrets') ? ['variables'] : []), ...(has('code', 'mounts', 'outputs') ? ['data'] : []), ...(has('retry', 'array', 'hold', 'priority') ? ['limits'] : [])];
}

const KEYS: Record<string, readonly string[]> = { variables: ['env', 'secrets'], data: ['code', 'mounts', 'outputs'], limits: ['retry', 'priority', 'array', 'hold'] };

function sectionOf(pointer: string): string[] {
  const key = pointer.split('/')[1] ?? '';
  return Object.entries(KEYS).flatMap(([section, keys]) => (keys.includes(key) ? [section] : []));
}

export function Sections({ edit, offers, open, problems, reason, setReason }: { edit: Edit; offers: Offers; open: string[]; problems: readonly FieldProblem[]; reason: string; setReason: (text: string) => void }) {
  const t = useText(words);
  const [opened, setOpened] = useState(open);
  const wrong = [...new Set(problems.flatMap((problem) => sectionOf(problem.path)))].join(' ');
  useEffect(() => {
    // Something wrong in a section that is closed would not be seen.
    if (wrong !== '') setOpened((now) => [...new Set([...now, ...wrong.split(' ')])]);
  }, [wrong]);
  return (
    <Accordion multiple value={opened} onChange={setOpened} variant="separated" keepMounted={false} order={2}>
      <Accordion.Item value="variables">
        <Accordion.Control>{t('variables')}</Accordion.Control>
        <Accordion.Panel>
          <Variables edit={edit} offers={offers} />
        </Accordion.Panel>
      </Accordion.Item>
      <Accordion.Item value="data">
        <Accordion.Control>{t('data')}</Accordion.Control>
        <Accordion.Panel>
          <Data edit={edit} offers={offers} />
        </Accordion.Panel>
      </Accordion.Item>
      <Accordion.Item value="limits">
        <Accordion.Control>{t('limits')}</Accordion.Control>
        <Accordion.Panel>
          <Limits edit={edit} reason={reason} setReason={setReason} />
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}

function freeName(taken: Record<string, unknown>, stem: string): string {
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? stem : `${stem}_${number}`;
    if (!(name in taken)) return name;
  }
}

function Variables({ edit, offers }: { edit: Edit; offers: Offers }) {
  const t = useText(words);
  const env = isRecord(edit.values.env) ? edit.values.env : {};
  const secrets = isRecord(edit.values.secrets) ? edit.values.secrets : {};
  const written = secretsWritten(edit.values).map((entry) => entry.name);
  return (
    <Stack gap="md">
      <Stack gap="xs" component="fieldset" m={0} p={0} style={{ border: 0 }} aria-label={t('env')}>
        <Text size="sm" fw={500}>
          {t('env')}
        </Text>
        {Object.entries(env).map(([name, value], index) => (
          <Group key={index} gap="xs" align="flex-start" wrap="nowrap">
            <TextField aria-label={t('variable')} value={name} onText={(text) => (text === '' ? undefined : edit.rename(['env', name], text))} error={edit.problem(pointerOf(['env', name]))} style={{ flex: 1 }} spellCheck={false} />
            <TextField aria-label={t('value')} value={textOf(value)} onText={(text) => edit.set(['env', name], text)} style={{ flex: 2 }} spellCheck={false} />
            <ActionIcon variant="subtle" color="gray" size="lg" aria-label={t('removeVariable', { name })} onClick={() => edit.set(['env', name], undefined)}>
              <Icon name="trash" size={16} />
            </ActionIcon>
          </Group>
        ))}
        <Group>
          <Button size="compact-sm" variant="default" onClick={() => edit.set(['env', freeName(env, 'NAME')], '')}>
            {t('addVariable')}
          </Button>
        </Group>
        {written.length > 0 && (
          <Alert color="yellow" icon={<Icon name="key" />} p="xs">
            <Text size="sm">{t('looksSecret', { names: written.join(', '), count: written.length })}</Text>
          </Alert>
        )}
      </Stack>
      <Stack gap="xs" component="fieldset" m={0} p={0} style={{ border: 0 }} aria-label={t('secrets')}>
        <div>
          <Text size="sm" fw={500}>
            {t('secrets')}
          </Text>
          <Text size="xs" c="dimmed">
            {offers.secrets.length > 0 ? t('secretsHint') : t('secretsNone')}
          </Text>
        </div>
        {Object.entries(secrets).map(([name, value], index) => (
          <Group key={index} gap="xs" align="flex-start" wrap="nowrap">
            <TextField aria-label={t('variable')} value={name} onText={(text) => (text === '' ? undefined : edit.rename(['secrets', name], text))} style={{ flex: 1 }} spellCheck={false} />
            <Autocomplete aria-label={t('secretName')} placeholder={name} data={offers.secrets} value={textOf(value)} onChange={(text) => edit.set(['secrets', name], text === '' ? null : text)} error={edit.problem(pointerOf(['secrets', name]))} style={{ flex: 1 }} />
            <ActionIcon variant="subtle" color="gray" size="lg" aria-label={t('removeSecret', { name })} onClick={() => edit.set(['secrets', name], undefined)}>
              <Icon name="trash" size={16} />
            </ActionIcon>
          </Group>
        ))}
        <Group>
          <Button size="compact-sm" variant="default" onClick={() => edit.set(['secrets', freeName(secrets, offers.secrets.find((name) => !(name in secrets)) ?? 'API_KEY')], null)}>
            {t('addSecret')}
          </Button>
        </Group>
      </Stack>
    </Stack>
  );
}

function Data({ edit, offers }: { edit: Edit; offers: Offers }) {
  const t = useText(words);
  const code = isRecord(edit.values.code) ? edit.values.code : null;
  const way = code === null ? 'none' : 'git' in code ? 'git' : 'snapshot' in code ? 'snapshot' : 'path';
  const mounts = Array.isArray(edit.values.mounts) ? edit.values.mounts : [];
  return (
    <Stack gap="md">
      <SimpleGrid type="container" cols={{ base: 1, '480px': 2 }}>
        <NativeSelect
          label={t('code')}
          value={way}
          data={[
            { value: 'none', label: t('codeNone') },
            { value: 'git', label: t('codeGit') },
            { value: 'snapshot', label: t('codeKept') },
            ...(way === 'path' ? [{ value: 'path', label: t('codeFolder') }] : []),
          ]}
          onChange={(event) => {
            const next = event.currentTarget.value;
            edit.set(['code'], next === 'git' ? { git: 'https://' } : next === 'snapshot' ? { snapshot: '' } : undefined);
          }}
          error={edit.problem('/code')}
        />
        {way === 'git' && <TextField label={t('gitRef')} value={textOf(code?.ref)} placeholder="main" onText={(text) => edit.set(['code', 'ref'], text || undefined)} error={edit.problem('/code/ref')} />}
      </SimpleGrid>
      {way === 'git' && <TextField label={t('gitUrl')} value={textOf(code?.git)} onText={(text) => edit.set(['code', 'git'], text)} error={edit.problem('/code/git')} spellCheck={false} />}
      {way === 'git' && (
        <NativeSelect
          label={t('gitSecret')}
          description={t('gitSecretHint')}
          value={textOf(code?.secret)}
          data={[{ value: '', label: '–' }, ...[...new Set([...offers.secrets, ...(textOf(code?.secret) ? [textOf(code?.secret)] : [])])]]}
          onChange={(event) => edit.set(['code', 'secret'], event.currentTarget.value || undefined)}
          error={edit.problem('/code/secret')}
        />
      )}
      {way === 'snapshot' && <TextField label={t('digest')} description={t('codeSnapshotHint')} value={textOf(code?.snapshot)} onText={(text) => edit.set(['code', 'snapshot'], text.trim())} error={edit.problem('/code/snapshot')} spellCheck={false} />}
      {way === 'path' && (
        <Alert color="yellow" icon={<Icon name="info" />} p="xs">
          <Text size="sm">
            <Said text={t('codeFolderHint')} />
          </Text>
        </Alert>
      )}
      <Group>{offers.folder}</Group>
      <Stack gap="xs" component="fieldset" m={0} p={0} style={{ border: 0 }} aria-label={t('mounts')}>
        <div>
          <Text size="sm" fw={500}>
            {t('mounts')}
          </Text>
          {offers.volumes.length === 0 && (
            <Text size="xs" c="dimmed">
              {t('volumesNone')}
            </Text>
          )}
        </div>
        {mounts.map((mount, index) => {
          const entry = isRecord(mount) ? mount : {};
          const name = textOf(entry.volume);
          return (
            <Group key={index} gap="xs" align="flex-start">
              <NameField kind="volumes" offers={offers} aria-label={t('volume')} placeholder={t('volume')} value={name} onChange={(text) => edit.set(['mounts', index, 'volume'], text)} error={edit.problem(`/mounts/${index}/volume`)} style={{ flex: '1 1 8rem' }} />
              <TextField aria-label={t('path')} placeholder="/data" value={textOf(entry.path)} onText={(text) => edit.set(['mounts', index, 'path'], text)} error={edit.problem(`/mounts/${index}/path`)} style={{ flex: '1 1 8rem' }} spellCheck={false} />
              <Checkbox label={t('readOnly')} mt={8} checked={entry.read_only === true} onChange={(event) => edit.set(['mounts', index, 'read_only'], event.currentTarget.checked ? true : undefined)} />
              <ActionIcon variant="subtle" color="gray" size="lg" aria-label={t('removeMount', { name })} onClick={() => edit.set(['mounts', index], undefined)}>
                <Icon name="trash" size={16} />
              </ActionIcon>
            </Group>
          );
        })}
        <Group>
          <Button size="compact-sm" variant="default" onClick={() => edit.set(['mounts', mounts.length], { volume: offers.volumes[0] ?? 'data', path: '/data' })}>
            {t('addMount')}
          </Button>
        </Group>
      </Stack>
      <TagsInput label={t('outputs')} description={t('outputsHint')} value={listOf(edit.values.outputs)} onChange={(list) => edit.set(['outputs'], list.length > 0 ? list : undefined)} error={edit.problem('/outputs', true)} />
    </Stack>
  );
}

function Limits({ edit, reason, setReason }: { edit: Edit; reason: string; setReason: (text: string) => void }) {
  const t = useText(words);
  const retry = isRecord(edit.values.retry) ? edit.values.retry : null;
  const priority = edit.values.priority;
  const array = edit.values.array;
  const size = typeof array === 'number' ? array : isRecord(array) && typeof array.size === 'number' ? array.size : undefined;
  const parallelism = isRecord(array) && typeof array.parallelism === 'number' ? array.parallelism : undefined;
  const setArray = (nextSize: number | undefined, most: number | undefined) => edit.set(['array'], nextSize === undefined ? undefined : { size: nextSize, ...(most === undefined ? {} : { parallelism: most }) });
  const wrongPriority = edit.problem('/priority');
  return (
    <Stack gap="md">
      <SimpleGrid type="container" cols={{ base: 1, '480px': 2 }}>
        <NumberField label={t('retry')} value={typeof retry?.limit === 'number' ? retry.limit : undefined} placeholder="0" min={0} max={19} allowDecimal={false} onNumber={(limit) => (limit === undefined ? edit.set(['retry'], undefined) : edit.set(['retry', 'limit'], limit))} error={edit.problem('/retry', true)} />
        <MultiSelect
          label={t('retryOn')}
          placeholder={listOf(retry?.on).length === 0 ? t('retryAll') : undefined}
          disabled={retry === null}
          value={listOf(retry?.on)}
          data={CLASSES.map((value) => ({ value, label: t(`class_${value}`) }))}
          onChange={(list) => edit.set(['retry', 'on'], list.length > 0 ? list : undefined)}
        />
        <NativeSelect
          label={t('priority')}
          value={textOf(priority)}
          data={[
            { value: '', label: t('priorityDefault') },
            ...PRIORITIES.map((value) => ({ value: value as string, label: t(`priority_${value}`) })),
            ...(typeof priority === 'number' ? [{ value: String(priority), label: String(priority) }] : []),
          ]}
          onChange={(event) => {
            const next = event.currentTarget.value;
            edit.set(['priority'], next === '' ? undefined : /^\d+$/.test(next) ? Number(next) : next);
          }}
          error={wrongPriority}
        />
        {(wrongPriority !== undefined || reason !== '') && <TextField label={t('priorityReason')} description={t('priorityReasonHint')} value={reason} onText={setReason} maxLength={1000} />}
      </SimpleGrid>
      <SimpleGrid type="container" cols={{ base: 1, '480px': 2 }}>
        <NumberField label={t('array')} description={t('arrayHint')} value={size} min={1} max={100_000} allowDecimal={false} onNumber={(count) => setArray(count, parallelism)} error={edit.problem('/array', true)} />
        <NumberField label={t('parallelism')} description=" " value={parallelism} min={1} max={100_000} allowDecimal={false} disabled={size === undefined} onNumber={(count) => setArray(size, count)} />
      </SimpleGrid>
      <Checkbox label={t('hold')} checked={edit.values.hold === true} onChange={(event) => edit.set(['hold'], event.currentTarget.checked ? true : undefined)} />
      <Text size="xs" c="dimmed">
        {t('moreInYaml')} <Anchor href="/api/v1/schemas/job-spec" target="_blank" rel="noreferrer" size="xs">JSON Schema</Anchor>
      </Text>
    </Stack>
  );
}
