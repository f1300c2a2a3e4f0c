/** The usual of a job as fields. Each change is written into the file at once; what has no field here stays in the file as it is. */

import { NativeSelect, Paper, SimpleGrid, Stack, TagsInput, Text } from '@mantine/core';

import type { FieldProblem } from '@/api/problem';
import { useText } from '@/text/language';

import { listOf, textOf, type Edit, type Offers } from './edit';
import { TextField } from './fields';
import { NameField } from './NameField';
import { Roles } from './Roles';
import { choicesAt, type Schema } from './schema';
import { Sections } from './Sections';
import { words } from './text';

/** How frameworks write their own names, where that is not as in a job file. */
const SPELT: Partial<Record<string, string>> = { jax: 'JAX', pytorch: 'PyTorch', mpi: 'MPI', openpai: 'OpenPAI', slurm: 'Slurm' };

export function Form({ edit, schema, offers, tenant, setTenant, open, problems, reason, setReason }: { edit: Edit; schema: Schema | undefined; offers: Offers; tenant: string; setTenant: (tenant: string) => void; open: string[]; problems: readonly FieldProblem[]; reason: string; setReason: (text: string) => void }) {
  const t = useText(words);
  const { values, set, problem } = edit;
  const framework = textOf(values.framework);
  const frameworks = new Set([...(schema ? choicesAt(schema, ['framework']) : []), framework].filter((name) => name !== '' && name !== 'none'));
  return (
    <Stack gap="md" component="section" aria-label={t('form')}>
      <Paper withBorder p="md">
        <Stack gap="sm">
          <Text fw={600} component="h2" size="md">
            {t('basics')}
          </Text>
          <SimpleGrid type="container" cols={{ base: 1, '430px': 2 }} spacing="sm">
            <TextField label={t('name')} value={textOf(values.name)} placeholder="job" onText={(text) => set(['name'], text === '' ? undefined : text)} error={problem('/name')} spellCheck={false} />
            <TagsInput label={t('tags')} placeholder={listOf(values.tags).length === 0 ? t('tagsHint') : undefined} value={listOf(values.tags)} onChange={(list) => set(['tags'], list.length > 0 ? list : undefined)} error={problem('/tags', true)} />
            {offers.tenants.length > 1 && <NativeSelect label={t('tenant')} data={offers.tenants} value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} error={problem('/tenant')} />}
            <NativeSelect
              label={t('queue')}
              value={textOf(values.queue)}
              data={[{ value: '', label: offers.topQueue ? t('queueDefault', { name: offers.topQueue }) : '–' }, ...[...new Set([...offers.queues, ...(textOf(values.queue) ? [textOf(values.queue)] : [])])].map((name) => ({ value: name, label: name }))]}
              onChange={(event) => set(['queue'], event.currentTarget.value || undefined)}
              error={problem('/queue')}
            />
            <NameField kind="images" offers={offers} label={t('image')} placeholder="host" value={textOf(values.image)} onChange={(text) => set(['image'], text.trim() || undefined)} error={problem('/image')} title={t('imageHint')} />
            <NativeSelect
              label={t('framework')}
              title={t('frameworkHint')}
              value={framework === 'none' ? '' : framework}
              data={[{ value: '', label: t('framework_none') }, ...[...frameworks].map((name) => ({ value: name, label: SPELT[name] ?? name }))]}
              onChange={(event) => set(['framework'], event.currentTarget.value || undefined)}
              error={problem('/framework')}
            />
            <TextField label={t('maxRuntime')} title={t('maxRuntimeHint')} placeholder="2h" value={textOf(values.max_runtime)} onText={(text) => set(['max_runtime'], text.trim() === '' ? undefined : /^\d+$/.test(text.trim()) ? Number(text.trim()) : text.trim())} error={problem('/max_runtime')} />
          </SimpleGrid>
        </Stack>
      </Paper>
      <Paper withBorder p="md">
        <Roles edit={edit} offers={offers} />
      </Paper>
      <Sections edit={edit} offers={offers} open={open} problems={problems} reason={reason} setReason={setReason} />
    </Stack>
  );
}
