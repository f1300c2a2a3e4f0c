/** Writing a template: what it is, its job with blanks, and what is asked for each of them. */

import { ActionIcon, Alert, Button, Checkbox, Code, Group, NativeSelect, Paper, SimpleGrid, Stack, TagsInput, Text, Textarea, TextInput } from '@mantine/core';
import { useMemo, useRef, useState, type ReactNode } from 'react';
import { useLocation, useNavigate, useParams, useSearchParams } from 'react-router';

import { api, take } from '@/api/client';
import { asProblem, type FieldProblem } from '@/api/problem';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Answer, Empty, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { Page } from '@/ui/Page';
import { placed, readJob } from '@/pages/submit/complaints';
import { complaints } from '@/pages/submit/complaintsText';
import { JobEditor } from '@/pages/submit/Pieces';
import { writeSpec } from '@/pages/submit/spec';
import { useSchema } from '@/pages/submit/useSchema';
import { Said } from '@/ui/Said';

import { useTemplate, type Template } from './asking';
import { blankOf, newBlank, placesIn, sent, type Blank } from './blanks';
import { isSign, SIGNS } from './signs';
import classes from './Templates.module.css';
import { words } from './text';

const TYPES = ['string', 'integer', 'number', 'boolean', 'choice'] as const;
const EVERYBODY = '*';
const EXAMPLE = '${{ parameters.gpus }}';
const FIRST = `name: train
command: \${{ parameters.command }}
resources: {cpu: 1, memory: 1Gi, gpu: "\${{ parameters.gpus }}"}
max_runtime: 1h
`;
const FIRST_BLANKS: Blank[] = [
  { ...newBlank('command'), title: 'Command', default: 'echo hello', required: true },
  { ...newBlank('gpus'), title: 'GPUs', type: 'integer', default: '1', minimum: '0', maximum: '8', required: true },
];

export function EditOne() {
  const t = useText(words);
  const { id = '' } = useParams();
  const template = useTemplate(id);
  if (template.data) return <Writing key={template.data.version} template={template.data} />;
  return (
    <Page title={t('title')}>
      <Answer query={template}>{() => null}</Answer>
    </Page>
  );
}

export function NewOne() {
  return <Writing template={null} />;
}

function textGiven(state: unknown): string | null {
  return typeof state === 'object' && state !== null && 'text' in state && typeof state.text === 'string' ? state.text : null;
}

function Writing({ template }: { template: Template | null }) {
  const t = useText(words);
  const shared = useText(common);
  const told = useText(complaints);
  const session = useSession();
  const navigate = useNavigate();
  const [search] = useSearchParams();
  const given = textGiven(useLocation().state);
  const schema = useSchema();
  const tenants = session.who.tenants.filter((tenant) => session.may('member', tenant.slug));
  const [text, setText] = useState(() => (template ? writeSpec(template.spec) : (given ?? FIRST)));
  const [blanks, setBlanks] = useState<Blank[]>(() => (template ? template.parameters.map(blankOf) : given === null ? FIRST_BLANKS : []));
  const [about, setAbout] = useState({
    name: template?.name ?? nameIn(given),
    title: template?.title ?? '',
    title_zh: template?.title_zh ?? '',
    description: template?.description ?? '',
    description_zh: template?.description_zh ?? '',
    icon: template?.icon ?? 'terminal',
    tags: template?.tags ?? [],
  });
  const [tenant, setTenant] = useState(search.get('tenant') ?? tenants[0]?.slug ?? EVERYBODY);
  const [failure, setFailure] = useState<unknown>(null);
  const [refusedText, setRefusedText] = useState('');
  const [isBusy, setBusy] = useState(false);
  const inFlight = useRef(false);
  const reading = useMemo(() => readJob(text, told), [text, told]);
  const problems: readonly FieldProblem[] = useMemo(() => (failure === null ? [] : asProblem(failure).fields), [failure]);
  const error = (pointer: string) => {
    const found = problems.find((entry) => entry.path === pointer);
    return found && <Said text={[found.message, found.hint]} />;
  };
  const marks = useMemo(() => {
    if (reading.values === null) return reading.marks;
    if (refusedText !== text) return [];
    return placed(text, problems.filter((entry) => entry.path.startsWith('/spec')).map((entry) => ({ ...entry, path: entry.path.slice('/spec'.length) }))).marks;
  }, [reading, problems, refusedText, text]);
  const unnamed = placesIn(text).filter((name) => !blanks.some((blank) => blank.name === name));
  const elsewhere = problems.filter((entry) => !/^\/(name|title|title_zh|description|description_zh|tags|icon|parameters)(\/|$)/.test(entry.path));

  if (tenants.length === 0 && !session.isOperator) {
    return (
      <Page title={t('newTitle')}>
        <Empty icon="key" title={t('mayNot')}>
          {t('mayNotHint')}
        </Empty>
      </Page>
    );
  }

  const save = async () => {
    if (inFlight.current || reading.values === null) return;
    inFlight.current = true;
    setBusy(true);
    setFailure(null);
    setRefusedText(text);
    try {
      const body = { ...about, name: about.name.trim(), title: about.title.trim(), parameters: blanks.map(sent), spec: reading.values };
      const saved = template
        ? await take(api.PATCH('/api/v1/templates/{template_id}', { params: { path: { template_id: template.id }, header: { 'If-Match': `"${template.version}"` } }, body }))
        : await take(api.POST('/api/v1/templates', { body: { ...body, ...(tenant === EVERYBODY ? { public: true } : { tenant, public: false }) } }));
      queries.setQueryData(['templates', 'one', saved.id], saved);
      void queries.invalidateQueries({ queryKey: ['templates', 'list'] });
      notify(t('saved', { name: saved.name }));
      await navigate(`/templates/${saved.id}`);
    } catch (reason) {
      setFailure(reason);
    } finally {
      inFlight.current = false;
      setBusy(false);
    }
  };
  const field = (key: 'name' | 'title' | 'title_zh') => ({ value: about[key], onChange: (event: { currentTarget: { value: string } }) => { const { value } = event.currentTarget; setAbout((now) => ({ ...now, [key]: value })); }, error: error(`/${key}`) });
  return (
    <Page
      title={template ? t('editTitle', { name: template.name }) : t('newTitle')}
      actions={
        <>
          <Button variant="default" onClick={() => void navigate(template ? `/templates/${template.id}` : '/templates')}>
            {shared('cancel')}
          </Button>
          <Button onClick={() => void save()} loading={isBusy} disabled={reading.values === null}>
            {shared('save')}
          </Button>
        </>
      }
    >
      {failure !== null && (elsewhere.length > 0 || problems.length === 0) && <ProblemView error={failure} />}
      {reading.values === null && (
        <Alert color="red" icon={<Icon name="cross" />} p="sm">
          {t('unreadable')}
        </Alert>
      )}
      <div className={classes.columns}>
        <Stack>
          <Paper withBorder p="md" component="section" aria-label={t('details')}>
            <Stack gap="sm">
              <Text component="h2" fw={600} size="md">
                {t('details')}
              </Text>
              <TextInput label={t('name')} description={<Said text={t('nameHint')} />} required spellCheck={false} {...field('name')} />
              <SimpleGrid cols={{ base: 1, sm: 2 }}>
                <TextInput label={t('titleField')} required {...field('title')} />
                <TextInput label={t('titleZh')} lang="zh-CN" {...field('title_zh')} />
              </SimpleGrid>
              <Textarea label={t('description')} autosize minRows={2} maxRows={8} value={about.description} onChange={(event) => { const { value } = event.currentTarget; setAbout((now) => ({ ...now, description: value })); }} error={error('/description')} />
              <Textarea label={t('descriptionZh')} lang="zh-CN" autosize minRows={2} maxRows={8} value={about.description_zh} onChange={(event) => { const { value } = event.currentTarget; setAbout((now) => ({ ...now, description_zh: value })); }} error={error('/description_zh')} />
              <SimpleGrid cols={{ base: 1, sm: 2 }}>
                <NativeSelect label={t('icon')} value={about.icon} onChange={(event) => { const { value } = event.currentTarget; setAbout((now) => ({ ...now, icon: value })); }} data={[...SIGNS.map((sign) => ({ value: sign as string, label: t(`icon_${sign}`) })), { value: '', label: t('icon_none') }, ...(about.icon && !isSign(about.icon) ? [{ value: about.icon, label: about.icon }] : [])]} error={error('/icon')} />
                {template === null && (
                  <NativeSelect label={t('tenant')} value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} data={[...tenants.map((entry) => ({ value: entry.slug, label: entry.name })), ...(session.isOperator ? [{ value: EVERYBODY, label: t('everybody') }] : [])]} error={error('/tenant')} />
                )}
              </SimpleGrid>
              <TagsInput label={t('tags')} placeholder={about.tags.length === 0 ? t('tagsHint') : undefined} value={about.tags} onChange={(tags) => setAbout((now) => ({ ...now, tags }))} error={error('/tags') ?? problems.find((entry) => entry.path.startsWith('/tags/'))?.message} />
            </Stack>
          </Paper>
          <Paper withBorder p="md" component="section" aria-label={t('blanks')}>
            <Stack gap="sm">
              <div>
                <Text component="h2" fw={600} size="md">
                  {t('blanks')}
                </Text>
                <Text size="sm" c="dimmed">
                  {t('blanksHint')}
                </Text>
              </div>
              {blanks.map((blank, index) => (
                <BlankForm key={index} blank={blank} index={index} error={error} set={(next) => setBlanks((now) => now.map((each, at) => (at === index ? next : each)))} remove={() => setBlanks((now) => now.filter((_, at) => at !== index))} />
              ))}
              <Group>
                <Button size="compact-sm" variant="default" onClick={() => setBlanks((now) => [...now, newBlank(freeName(now))])}>
                  {t('addBlank')}
                </Button>
                {unnamed.length > 0 && (
                  <Button size="compact-sm" onClick={() => setBlanks((now) => [...now, ...unnamed.map(newBlank)])}>
                    {t('found', { names: unnamed.join(', ') })}
                  </Button>
                )}
              </Group>
            </Stack>
          </Paper>
        </Stack>
        <Paper withBorder p="md" component="section" aria-label={t('job')} className={classes.aside}>
          <Stack gap="sm">
            <Text component="h2" fw={600} size="md">
              {t('job')}
            </Text>
            <Text size="sm" c="dimmed" id="template-job-hint">
              {t('jobHint', { example: '' })} <Code>{EXAMPLE}</Code>
            </Text>
            <JobEditor text={text} onText={setText} marks={marks} schema={schema} names={{}} label={t('editorLabel')} describedBy="template-job-hint" height="max(22rem, calc(100vh - 22rem))" />
          </Stack>
        </Paper>
      </div>
    </Page>
  );
}

function BlankForm({ blank, index, set, remove, error }: { blank: Blank; index: number; set: (blank: Blank) => void; remove: () => void; error: (pointer: string) => ReactNode }) {
  const t = useText(words);
  const at = `/parameters/${index}`;
  const field = (key: 'name' | 'title' | 'title_zh' | 'description' | 'default' | 'minimum' | 'maximum') => ({ value: blank[key], onChange: (event: { currentTarget: { value: string } }) => set({ ...blank, [key]: event.currentTarget.value }), error: error(`${at}/${key}`) });
  const isBounded = blank.type !== 'boolean' && blank.type !== 'choice';
  return (
    <Paper withBorder p="sm" component="fieldset" m={0} miw={0} aria-label={t('blank', { name: blank.name })}>
      <Stack gap="xs">
        <Group align="flex-end" wrap="nowrap" gap="xs">
          <TextInput label={t('name')} spellCheck={false} style={{ flex: 1 }} {...field('name')} />
          <NativeSelect label={t('type')} value={blank.type} onChange={(event) => set({ ...blank, type: event.currentTarget.value as Blank['type'], default: '', minimum: '', maximum: '' })} data={TYPES.map((value) => ({ value, label: t(`type_${value}`) }))} error={error(`${at}/type`)} />
          <ActionIcon variant="subtle" color="red" size="lg" aria-label={t('removeBlank', { name: blank.name })} onClick={remove}>
            <Icon name="trash" size={16} />
          </ActionIcon>
        </Group>
        <SimpleGrid cols={2} spacing="xs">
          <TextInput label={t('titleField')} {...field('title')} />
          <TextInput label={t('titleZh')} lang="zh-CN" {...field('title_zh')} />
        </SimpleGrid>
        <TextInput label={t('description')} {...field('description')} />
        {blank.type === 'choice' && <TagsInput label={t('choices')} value={blank.choices} onChange={(choices) => set({ ...blank, choices })} error={error(`${at}/choices`)} />}
        <Group align="flex-start" gap="xs" grow>
          {blank.type === 'boolean' || blank.type === 'choice' ? (
            <NativeSelect label={t('default')} value={blank.default} onChange={(event) => set({ ...blank, default: event.currentTarget.value })} data={[{ value: '', label: t('noDefault') }, ...(blank.type === 'boolean' ? ['true', 'false'] : blank.choices).map((value) => ({ value, label: value }))]} error={error(`${at}/default`)} />
          ) : (
            <TextInput label={t('default')} {...field('default')} />
          )}
          {isBounded && <TextInput label={t('minimum')} inputMode="decimal" {...field('minimum')} />}
          {isBounded && <TextInput label={t('maximum')} inputMode="decimal" {...field('maximum')} />}
        </Group>
        <Checkbox label={t('required')} checked={blank.required} onChange={(event) => set({ ...blank, required: event.currentTarget.checked })} />
        {error(at) && (
          <Text size="sm" c="red" role="alert">
            {error(at)}
          </Text>
        )}
      </Stack>
    </Paper>
  );
}

function freeName(blanks: readonly Blank[]): string {
  for (let number = blanks.length + 1; ; number += 1) if (!blanks.some((blank) => blank.name === `value_${number}`)) return `value_${number}`;
}

/** A first name from the job's own. */
function nameIn(text: string | null): string {
  const found = /^name:\s*["']?([A-Za-z0-9._-]+)/m.exec(text ?? '')?.[1] ?? '';
  return found.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-').replaceAll(/^-|-$/g, '');
}
