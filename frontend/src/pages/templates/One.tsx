/** One template: its blanks as a form, the job that comes of them as they are filled in, and the way to submit it. */

import { Alert, Autocomplete, Button, Checkbox, Code, Group, List, NativeSelect, NumberInput, Paper, Pill, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useRef, useState, type ReactNode } from 'react';
import { Link, useNavigate, useParams } from 'react-router';

import { asProblem } from '@/api/problem';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useLanguage, useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, CopyText, curl, python, quote, type Ways } from '@/ui/CopyAs';
import { Answer, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { Page } from '@/ui/Page';
import { Said } from '@/ui/Said';
import { When } from '@/ui/Times';
import { keepDraft } from '@/pages/submit/draft';
import { useNames } from '@/pages/submit/loading';
import { writeSpec } from '@/pages/submit/spec';

import { inLanguage, publish, remove, render, useTemplate, type Parameter, type Template, type Value } from './asking';
import { Whose } from './Gallery';
import { TemplateSign } from './signs';
import { StartTest, TestTold } from './TestRun';
import classes from './Templates.module.css';
import { words } from './text';

const QUIET_MS = 350;

export function One() {
  const t = useText(words);
  const { id = '' } = useParams();
  const template = useTemplate(id);
  if (template.data) return <Shown key={template.data.id} template={template.data} />;
  return (
    <Page title={t('title')}>
      <Answer query={template}>{() => null}</Answer>
    </Page>
  );
}

function Shown({ template }: { template: Template }) {
  const t = useText(words);
  const shared = useText(common);
  const { language } = useLanguage();
  const session = useSession();
  const navigate = useNavigate();
  const told = inLanguage(template, language);
  const tenants = session.who.tenants.filter((tenant) => session.may('member', tenant.slug));
  const [tenant, setTenant] = useState(tenants.find((entry) => entry.slug === template.tenant?.slug)?.slug ?? tenants[0]?.slug ?? '');
  const [name, setName] = useState('');
  const [queue, setQueue] = useState('');
  const [values, setValues] = useState<Record<string, Value>>(() => Object.fromEntries(template.parameters.map((parameter) => [parameter.name, asValue(parameter.default)])));
  const [failure, setFailure] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const names = useNames(tenant);
  const given = { parameters: filled(template.parameters, values), name: name.trim(), queue, tenant: tenant || null };
  const [quiet] = useDebouncedValue(JSON.stringify(given), QUIET_MS);
  const preview = useQuery({
    queryKey: ['template-preview', template.id, template.version, quiet],
    staleTime: 30_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => render(template.id, { ...(JSON.parse(quiet) as typeof given), preview: true }, signal),
  });
  const refused = preview.error ? asProblem(preview.error) : null;
  const lastText = useRef('');
  if (preview.data) lastText.current = writeSpec(preview.data.spec);
  const text = lastText.current;
  const error = (parameter: string) => {
    const found = refused?.fields.find((field) => field.path === `/parameters/${parameter}`);
    return found && <Said text={[found.message, found.hint]} />;
  };
  const elsewhere = refused?.fields.filter((field) => !template.parameters.some((parameter) => field.path === `/parameters/${parameter.name}`)) ?? [];
  const use = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const made = await render(template.id, { ...given, preview: false });
      keepDraft({ text: writeSpec(made.spec), tenant, source: `template:${template.id}`, attempt: null });
      await navigate(`/submit?template=${template.id}`);
    } catch (reason) {
      setFailure(reason);
      setBusy(false);
    }
  };
  return (
    <Page
      title={told.title || template.name}
      subtitle={
        <Group gap="xs">
          <Whose row={template} />
          <TestTold row={template} />
          {template.tags.map((tag) => (
            <Link key={tag} to={`/templates?tag=${encodeURIComponent(tag)}`} className={classes.link}>
              <Pill>{tag}</Pill>
            </Link>
          ))}
          <Text size="sm" span>
            {template.shipped ? t('shipped') : template.owner ? t('by', { name: template.owner.name }) : ''} · {t('uses', { count: template.uses })} · {t('updated')} <When at={template.updated_at} />
          </Text>
        </Group>
      }
      actions={
        <>
          <CopyAs ways={() => ways(template, given)} />
          <StartTest row={template} />
          {template.may_edit && (
            <Button component={Link} to={`/templates/${template.id}/edit`} variant="default" leftSection={<Icon name="edit" size={16} />}>
              {shared('edit')}
            </Button>
          )}
          {template.may_publish && (
            <Confirm label={t('publish')} title={t('publishTitle', { name: template.name })} variant="default" act={async () => { await publish(template.id); notify(t('published', { name: template.name })); }}>
              {t('publishHint')}
            </Confirm>
          )}
          {template.may_edit && (
            <Confirm label={shared('delete')} title={t('deleteTitle', { name: template.name })} variant="light" color="red" act={async () => { await remove(template.id); notify(t('deleted', { name: template.name })); await navigate('/templates'); }}>
              {t('deleteHint')}
            </Confirm>
          )}
        </>
      }
    >
      <Group wrap="nowrap" align="flex-start">
        <TemplateSign name={template.icon} size={48} />
        <Text style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }} maw="60rem">
          <Said text={told.description} />
        </Text>
      </Group>
      {failure !== null && asProblem(failure).fields.length === 0 && <ProblemView error={failure} />}
      <div className={classes.columns}>
        <Paper withBorder p="md" component="section" aria-label={t('parameters')}>
          <Stack gap="sm">
            <Text component="h2" fw={600} size="md">
              {t('parameters')}
            </Text>
            {template.parameters.length === 0 && <Text c="dimmed">{t('noParameters')}</Text>}
            {template.parameters.map((parameter) => (
              <Blank key={parameter.name} parameter={parameter} value={values[parameter.name] ?? null} set={(value) => setValues((now) => ({ ...now, [parameter.name]: value }))} error={error(parameter.name)} images={names.images} />
            ))}
            {tenants.length > 1 && <NativeSelect label={shared('tenant')} value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} data={tenants.map((entry) => ({ value: entry.slug, label: entry.name }))} />}
            {tenants.length > 0 && (
              <Group grow align="flex-start">
                <TextInput label={t('jobName')} placeholder={typeof template.spec.name === 'string' ? template.spec.name : template.name} value={name} onChange={(event) => setName(event.currentTarget.value)} spellCheck={false} />
                <NativeSelect label={t('queue')} value={queue} onChange={(event) => setQueue(event.currentTarget.value)} data={[{ value: '', label: names.topQueue || '–' }, ...names.queues.map((each) => ({ value: each, label: each }))]} />
              </Group>
            )}
            {tenants.length > 0 && (
              <>
                <Button onClick={() => void use()} loading={isBusy} leftSection={<Icon name="play" size={16} />} disabled={refused !== null}>
                  {t('use')}
                </Button>
                <Text size="xs" c="dimmed">
                  {t('useHint')}
                </Text>
              </>
            )}
          </Stack>
        </Paper>
        <Paper withBorder p="md" component="section" aria-label={t('result')} className={classes.aside}>
          <Stack gap="sm">
            <Group justify="space-between">
              <Text component="h2" fw={600} size="md">
                {t('result')}
              </Text>
              {text && <CopyText text={text} />}
            </Group>
            <div role="status">
              {refused ? (
                elsewhere.length > 0 || refused.fields.length === 0 ? <ProblemView error={preview.error} retry={() => void preview.refetch()} /> : <Text size="sm">{t('problems', { count: refused.fields.length })}</Text>
              ) : preview.data && preview.data.problems.length > 0 ? (
                <Alert color="red" icon={<Icon name="cross" />} title={t('problems', { count: preview.data.problems.length })} p="sm">
                  <List size="sm">
                    {preview.data.problems.map((problem, index) => (
                      <List.Item key={index}>
                        <Code>{problem.path}</Code> <Said text={[problem.message, problem.hint]} />
                      </List.Item>
                    ))}
                  </List>
                </Alert>
              ) : (
                <Group gap={6}>
                  <Text c="teal" span>
                    <Icon name={preview.data ? 'check' : 'hourglass'} size={16} />
                  </Text>
                  <Text size="sm">{preview.data ? t('fits') : t('rendering')}</Text>
                </Group>
              )}
            </div>
            <Code block tabIndex={0} style={{ maxHeight: '60vh', minHeight: '14rem', overflow: 'auto', opacity: refused ? 0.5 : 1 }}>
              {text}
            </Code>
          </Stack>
        </Paper>
      </div>
    </Page>
  );
}

function Blank({ parameter, value, set, error, images }: { parameter: Parameter; value: Value; set: (value: Value) => void; error: ReactNode; images: string[] }) {
  const t = useText(words);
  const { language } = useLanguage();
  const told = inLanguage(parameter, language);
  const shared = { label: told.title || parameter.name, description: told.description ? <Said text={told.description} /> : undefined, error, withAsterisk: parameter.required };
  const bound = { min: parameter.minimum ?? undefined, max: parameter.maximum ?? undefined };
  if (parameter.type === 'boolean') return <Checkbox label={shared.label} description={shared.description} error={error} checked={value === true} onChange={(event) => set(event.currentTarget.checked)} />;
  if (parameter.type === 'choice') {
    const choices = parameter.choices.map((choice) => asValue(choice));
    return (
      <NativeSelect
        {...shared}
        value={value === null ? '' : String(value)}
        data={[...(parameter.required && value !== null ? [] : [{ value: '', label: t('noDefault') }]), ...choices.map((choice) => ({ value: String(choice), label: String(choice) }))]}
        onChange={(event) => set(choices.find((choice) => String(choice) === event.currentTarget.value) ?? null)}
      />
    );
  }
  if (parameter.type === 'integer' || parameter.type === 'number') {
    return <NumberInput {...shared} {...bound} clampBehavior="none" allowDecimal={parameter.type === 'number'} value={typeof value === 'number' ? value : ''} onChange={(next) => set(typeof next === 'number' ? next : null)} />;
  }
  const text = value === null ? '' : String(value);
  if (parameter.name === 'image') return <Autocomplete {...shared} data={images} value={text} onChange={(next) => set(next)} />;
  if (text.includes('\n') || /command|script/i.test(parameter.name)) {
    return <Textarea {...shared} value={text} onChange={(event) => set(event.currentTarget.value)} autosize minRows={2} maxRows={16} spellCheck={false} styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }} />;
  }
  return <TextInput {...shared} value={text} onChange={(event) => set(event.currentTarget.value)} spellCheck={false} />;
}

function asValue(value: unknown): Value {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : null;
}

/** What is filled in; a blank that is left empty is left out, so that the server says whether it may be. */
function filled(parameters: readonly Parameter[], values: Record<string, Value>): Record<string, Value> {
  return Object.fromEntries(parameters.flatMap((parameter) => {
    const value = values[parameter.name] ?? null;
    if (value === null) return [];
    return [[parameter.name, value]];
  }));
}

function ways(template: Template, given: { parameters: Record<string, Value>; name: string; queue: string; tenant: string | null }): Ways {
  const changed = Object.entries(given.parameters).filter(([name, value]) => template.parameters.find((parameter) => parameter.name === name)?.default !== value);
  const options = [...changed.map(([name, value]) => `-p ${quote(`${name}=${String(value)}`)}`), ...(given.name ? [`--name ${quote(given.name)}`] : []), ...(given.queue ? [`--queue ${quote(given.queue)}`] : [])];
  const body = { parameters: Object.fromEntries(changed), ...(given.name ? { name: given.name } : {}), ...(given.queue ? { queue: given.queue } : {}) };
  return {
    cli: `berth templates use ${quote(template.name)}${options.length > 0 ? ` ${options.join(' ')}` : ''}`,
    curl: curl('POST', `/templates/${template.id}/render`, body),
    python: [
      'import berth',
      '',
      'with berth.Client() as client:',
      `    made = client.templates.render(${JSON.stringify(template.name)}, ${python(body.parameters)}${given.name ? `, name=${JSON.stringify(given.name)}` : ''}${given.queue ? `, queue=${JSON.stringify(given.queue)}` : ''}, preview=False)`,
      '    job = client.jobs.submit(made["spec"])',
      '    print(job.id)',
    ].join('\n'),
  };
}
