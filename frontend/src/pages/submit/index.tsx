/**
 * Writing and submitting a job: as a form, as a file, or both at once, with what would become of it beside them.
 *
 * The file is the truth. The form reads it and writes into it; the plan, the marks in the editor and the problems at the fields are
 * all of the same text.
 */

import { Alert, Anchor, Box, Button, Code, Group, List, SegmentedControl, Stack, Text, VisuallyHidden } from '@mantine/core';
import { useDebouncedValue, useHotkeys, useMediaQuery } from '@mantine/hooks';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { Link, useNavigate, useSearchParams } from 'react-router';

import { asProblem, type FieldProblem } from '@/api/problem';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { StartFrom } from '@/pages/job/checkpoint/StartFrom';
import { useFormat } from '@/text/format';
import { useLanguage, useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs } from '@/ui/CopyAs';
import { Answer, Empty, ProblemView } from '@/ui/Feedback';
import { FolderButton } from '@/ui/FolderButton';
import { entriesOf, isFolder } from '@/ui/folders';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { Page } from '@/ui/Page';

import { attemptFor, differences, isUnsure, submit, usePlan, useWhy, type Attempt, type Option, type Plan } from './asking';
import { CodeFolder } from './code/CodeFolder';
import { FILES_MAX, PACKED_MAX } from './code/packing';
import { words as codeWords } from './code/text';
import { useCodeFolder } from './code/useCodeFolder';
import { Converted } from './Converted';
import { complaints } from './complaintsText';
import { placed, readJob, schemaProblems } from './complaints';
import type { Names } from './completing';
import { forgetDraft, keepDraft } from './draft';
import { makeProblem, type Edit, type Offers } from './edit';
import type { EditorHandle } from './Editor';
import { convert, isForeign, type Foreign } from './foreign';
import { Form } from './Form';
import { sourceOf, useBeginning, useNames, type Beginning } from './loading';
import { darkTitle } from './look';
import { ImportButton, JobEditor, Samples } from './Pieces';
import { PlanPanel, type Placed } from './PlanPanel';
import { openSections } from './Sections';
import { addRole, bytesText, change, changeAll, imported, isRecord, rename, withSnapshot, writeSpec, type Plain } from './spec';
import classes from './Submit.module.css';
import { words } from './text';
import { useSchema } from './useSchema';
import { waysToSubmit } from './ways';

type View = 'form' | 'both' | 'yaml';
const QUIET_MS = 500;
const FILE_BYTES_MAX = 1024 * 1024;
const DIFFERENCES_SHOWN = 8;
const VALUE_SHOWN = 120;

export default function Submit() {
  const t = useText(words);
  const session = useSession();
  const [search] = useSearchParams();
  const source = sourceOf(search);
  const tenants = session.who.tenants.filter((tenant) => session.may('member', tenant.slug));
  const beginning = useBeginning(source, tenants[0]?.slug ?? '', tenants.length > 0);
  if (tenants.length === 0) {
    return (
      <Page title={t('title')}>
        <Empty icon="key" title={t('noTenant')}>
          {t('noTenantHint')}
        </Empty>
      </Page>
    );
  }
  if (beginning.data === undefined) {
    return (
      <Page title={t('title')} subtitle={t('subtitle')} wide>
        <Answer query={beginning}>{() => null}</Answer>
      </Page>
    );
  }
  return <Writer key={source} source={source} beginning={beginning.data} />;
}

function Writer({ source, beginning }: { source: string; beginning: Beginning }) {
  const t = useText(words);
  const c = useText(codeWords);
  const told = useText(complaints);
  const format = useFormat();
  const session = useSession();
  const navigate = useNavigate();
  const [search, setSearch] = useSearchParams();
  const isWide = useMediaQuery('(min-width: 1700px)', false);
  const asked = search.get('view');
  const view: View = asked === 'yaml' || asked === 'both' || asked === 'form' ? asked : isWide ? 'both' : 'form';
  const setView = (next: View) => setSearch((now) => { now.set('view', next); return now; }, { replace: true });

  const tenants = useMemo(() => session.who.tenants.filter((tenant) => session.may('member', tenant.slug)).map((tenant) => ({ value: tenant.slug, label: tenant.name })), [session]);
  const [text, setText] = useState(beginning.text);
  const [tenant, setTenant] = useState(tenants.some((entry) => entry.value === beginning.tenant) ? beginning.tenant : (tenants[0]?.value ?? ''));
  const [reason, setReason] = useState('');
  const [isBack, setBack] = useState(beginning.draft !== null && beginning.origin.kind !== 'template' && beginning.draft.text !== beginning.fresh);
  const [unsure, setUnsure] = useState<Attempt | null>(beginning.draft?.attempt ?? null);
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const [formKey, setFormKey] = useState(0);
  const [foreign, setForeign] = useState<Foreign | null>(null);
  const { language } = useLanguage();
  const editor = useRef<EditorHandle>(null);
  const inFlight = useRef(false);
  const isDone = useRef(false);

  const schema = useSchema();
  const known = useNames(tenant);
  const reading = useMemo(() => readJob(text, told), [text, told]);
  const { values } = reading;
  const lastValues = useRef<Record<string, Plain>>({});
  if (values !== null) lastValues.current = values;
  const [quiet] = useDebouncedValue(text, QUIET_MS);
  const [quietReason] = useDebouncedValue(reason.trim(), QUIET_MS);
  const isSettled = quiet === text;
  const plan = usePlan({ text: quiet, tenant, reason: quietReason, isReady: quiet.trim() !== '' && (isSettled ? values !== null : true) });
  const lastPlan = useRef<Plan | undefined>(undefined);
  if (plan.data) lastPlan.current = plan.data;
  const why = useWhy({ plan: plan.data, tenant });

  const refused = plan.error ? asProblem(plan.error) : null;
  const problems: readonly FieldProblem[] = useMemo(() => {
    if (isSettled && refused && refused.fields.length > 0) return refused.fields;
    if (isSettled && plan.data) return [];
    return schemaProblems(schema, values, told);
  }, [isSettled, refused, plan.data, schema, values, told]);
  const { marks, list } = useMemo(() => (values === null ? { marks: reading.marks, list: reading.broken } : placed(text, problems)), [text, values, problems, reading]);

  useEffect(() => {
    if (!isDone.current && (text !== beginning.text || unsure)) keepDraft({ text: quiet, tenant, source, attempt: unsure });
  }, [quiet, tenant, source, unsure, text, beginning.text]);

  const write = useCallback((made: string) => {
    setText(made);
    setFailure(null);
  }, []);
  const replace = useCallback((made: string) => {
    write(made);
    setFormKey((key) => key + 1);
    setBack(false);
    setForeign(null); // What stood there is not what was told of any more.
  }, [write]);
  const edit: Edit = useMemo(
    () => ({
      values: values ?? lastValues.current, // While the file cannot be read the form shows what it was.
      set: (path, value) => setText((now) => change(now, path, value)),
      setAll: (changes) => setText((now) => changeAll(now, changes)),
      rename: (path, name) => setText((now) => rename(now, path, name)),
      addRole: () => setText((now) => addRole(now)),
      problem: makeProblem(problems),
    }),
    [values, problems],
  );
  const code = useCodeFolder(tenant, (sha256) => {
    setText((now) => withSnapshot(now, sha256));
    setFormKey((key) => key + 1);
  });
  const folderButton = <FolderButton label={c('choose')} title={c('chooseHint', { size: format.bytes(PACKED_MAX), count: format.number(FILES_MAX) })} onFolder={code.choose} variant="default" leftSection={<Icon name="data" size={16} />} />;
  const offers: Offers = { tenants, ...known, folder: folderButton };
  const names: Names = useMemo(
    () => ({ queue: [...known.queues, ...(known.topQueue ? [known.topQueue] : [])], image: known.images, pool: known.pools, 'mounts/*/volume': known.volumes, 'secrets/*': known.secrets }),
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [known.queues.join(), known.topQueue, known.images.join(), known.pools.join(), known.volumes.join(), known.secrets.join()],
  );

  const openFile = async (file: File) => {
    if (file.size > FILE_BYTES_MAX) {
      notify(t('importTooLarge', { size: format.bytes(FILE_BYTES_MAX) }), 'failed');
      return;
    }
    const written = await file.text();
    if (isForeign(written)) {
      await openForeign({ text: written, name: file.name });
      return;
    }
    replace(imported(written));
    notify(t('imported', { name: file.name }));
  };
  /** The job that a file of another system becomes; what became of it stands above the form, and so does why it became none. */
  const openForeign = async (file: Foreign) => {
    try {
      const made = await convert(file, language);
      replace(writeSpec(made.spec));
    } catch {
      // Shown where the notes would be.
    }
    setForeign(file);
  };
  const takePasted = (pasted: string) => {
    if (!isForeign(pasted)) return false;
    void openForeign({ text: pasted, name: '' });
    return true;
  };
  const takeDropped = (data: DataTransfer) => {
    const entries = entriesOf(data);
    const [file] = data.files;
    if (entries.some(isFolder)) code.drop(entries);
    else if (file) void openFile(file);
  };
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const isTyping = event.target instanceof Element && event.target.closest('input, textarea, [contenteditable="true"]') !== null;
      if (!isTyping && takePasted(event.clipboardData?.getData('text/plain') ?? '')) event.preventDefault();
    };
    const over = (event: DragEvent) => event.dataTransfer?.types.includes('Files') && event.preventDefault();
    const drop = (event: DragEvent) => {
      if (event.defaultPrevented || !event.dataTransfer?.types.includes('Files')) return; // The editor took it.
      event.preventDefault();
      takeDropped(event.dataTransfer);
    };
    const heard = [['paste', paste], ['dragover', over], ['drop', drop]] as [string, EventListener][];
    for (const [name, listener] of heard) document.addEventListener(name, listener);
    return () => {
      for (const [name, listener] of heard) document.removeEventListener(name, listener);
    };
  });
  const goTo = (problem: Placed) => {
    if (view === 'form') setView('yaml');
    const [mark] = placed(text, [problem]).marks;
    const place = problem.code === 'syntax' ? reading.marks[0] : mark;
    setTimeout(() => place && editor.current?.show(place.from, place.to), view === 'form' ? 400 : 0);
  };
  const choose = (option: Option) => {
    const at = isRecord(values?.roles);
    edit.setAll(
      option.roles.flatMap((role) => {
        const base = at ? ['roles', role.name] : [];
        const resources: [readonly (string | number)[], Plain][] = [
          [[...base, 'replicas'], role.replicas],
          [[...base, 'resources', 'cpu'], role.resources.cpu_millis / 1000],
          [[...base, 'resources', 'memory'], bytesText(role.resources.memory_bytes)],
        ];
        if (role.resources.gpu_millis > 0) resources.push([[...base, 'resources', 'gpu'], modelled(values, base, role.resources.gpu_millis / 1000)]);
        return resources;
      }),
    );
  };
  const send = async () => {
    if (inFlight.current) return;
    inFlight.current = true;
    setBusy(true);
    setFailure(null);
    let attempt: Attempt | null = null;
    try {
      attempt = await attemptFor({ text, tenant, reason, plan: isSettled ? plan.data : undefined, older: beginning.origin.spec ? { id: beginning.origin.id, tenant: beginning.origin.tenant, spec: beginning.origin.spec } : null }, unsure);
      keepDraft({ text, tenant, source, attempt }); // Should this tab go before the answer comes, a second try makes no second job.
      const job = await submit(attempt);
      isDone.current = true;
      forgetDraft(source);
      void queries.invalidateQueries({ queryKey: ['jobs'] });
      notify(t('submitted', { name: job.name }));
      await navigate(`/jobs/${job.id}`);
    } catch (error) {
      const mayHaveMade = attempt !== null && isUnsure(error) ? attempt : null;
      setUnsure(mayHaveMade);
      keepDraft({ text, tenant, source, attempt: mayHaveMade });
      setFailure(error);
      if (asProblem(error).code === 'plan_changed') void plan.refetch();
    } finally {
      inFlight.current = false;
      setBusy(false);
    }
  };

  useHotkeys([['mod+Enter', () => void (values !== null && send())]], [], true);

  const mayTemplate = session.has('templates');
  const hasProblems = values === null || list.length > 0;
  const formPane = (
    <Box className={classes.pane} pos="relative">
      {values === null && (
        <Alert color="yellow" icon={<Icon name="alert" />} title={t('unreadable', { line: reading.broken[0]?.line ?? 1 })} className={classes.notice} styles={darkTitle}>
          <Stack gap="xs" align="flex-start">
            <Text size="sm">{t('unreadableHint')}</Text>
            {view === 'form' && (
              <Button size="compact-sm" variant="default" onClick={() => setView('yaml')}>
                {t('toYaml')}
              </Button>
            )}
          </Stack>
        </Alert>
      )}
      <fieldset disabled={values === null} className={values === null ? classes.waiting : classes.fields}>
        <Form key={formKey} edit={edit} schema={schema} offers={offers} tenant={tenant} setTenant={setTenant} open={openSections(edit.values)} problems={problems} reason={reason} setReason={setReason} />
      </fieldset>
    </Box>
  );
  const yamlPane = (
    <Box className={classes.pane}>
      <JobEditor text={text} onText={write} marks={marks} schema={schema} names={names} label={t('editor')} describedBy="editor-hint" height={view === 'yaml' || isWide ? 'max(24rem, calc(100vh - 17rem))' : '24rem'} handle={editor} onDrop={takeDropped} onPaste={takePasted} />
      <Text id="editor-hint" size="xs" c="dimmed" mt={4}>
        {t('editorHint')}
      </Text>
    </Box>
  );
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      wide
      actions={
        <>
          <Samples choose={replace} />
          <ImportButton open={(file) => void openFile(file)} />
          {view === 'yaml' && folderButton}
          <CopyAs ways={() => waysToSubmit(text, tenants.length > 1 ? tenant : '', reason)} />
        </>
      }
    >
      <Origins beginning={beginning} isBack={isBack} plan={plan.data} reset={() => replace(beginning.fresh)} />
      {code.folder && <CodeFolder folder={code.folder} remove={code.remove} retry={code.retry} />}
      {beginning.origin.kind === 'job' && (
        <StartFrom
          job={beginning.origin.id}
          text={text}
          onText={(next) => {
            setText(next);
            setFormKey((key) => key + 1);
          }}
        />
      )}
      {foreign && <Converted file={foreign} dismiss={() => setForeign(null)} />}
      <Group justify="space-between" gap="sm">
        <SegmentedControl
          value={view}
          onChange={(next) => setView(next as View)}
          aria-label={t('view')}
          data={[
            { value: 'form', label: t('form') },
            { value: 'both', label: t('both') },
            { value: 'yaml', label: t('yaml') },
          ]}
        />
        <Group gap="xs">
          {mayTemplate && (
            <Button component={Link} to={`/templates/new?tenant=${encodeURIComponent(tenant)}`} state={{ text }} variant="default" leftSection={<Icon name="templates" size={16} />}>
              {t('saveAsTemplate')}
            </Button>
          )}
          <Button onClick={() => void send()} loading={isBusy} disabled={values === null} leftSection={<Icon name="play" size={16} />} color={hasProblems ? 'gray' : undefined} title={`${t('submit')} (Ctrl+Enter)`} aria-keyshortcuts="Control+Enter">
            {t('submit')}
          </Button>
        </Group>
      </Group>
      {failure !== null && (
        <div>
          {asProblem(failure).code === 'plan_changed' ? (
            <Alert color="yellow" icon={<Icon name="alert" />} role="alert">
              {t('planStale')}
            </Alert>
          ) : (
            <ProblemView error={failure} retry={isUnsure(failure) ? () => void send() : undefined} />
          )}
        </div>
      )}
      <div className={view === 'both' ? classes.three : classes.two}>
        {view !== 'yaml' && formPane}
        {view !== 'form' && yamlPane}
        <Box className={classes.plan}>
          <PlanPanel query={plan} shown={plan.data ?? lastPlan.current} isChecking={!isSettled || plan.isFetching} why={why} problems={list} goTo={goTo} isUnreadable={values === null} choose={choose} />
        </Box>
      </div>
      <VisuallyHidden aria-live="polite">{hasProblems ? t('problems', { count: list.length }) : ''}</VisuallyHidden>
    </Page>
  );
}

/** `a100:4` stays of that model when the number changes. */
function modelled(values: Record<string, Plain> | null, base: readonly string[], count: number): Plain {
  const role = base.length > 0 && isRecord(values?.roles) ? values.roles[base[1] ?? ''] : values;
  const now = isRecord(role) && isRecord(role.resources) ? role.resources.gpu : undefined;
  return typeof now === 'string' && now.includes(':') ? `${now.slice(0, now.lastIndexOf(':'))}:${count}` : count;
}

/** Where this draft came from, and what differs from there. */
function Origins({ beginning, isBack, plan, reset }: { beginning: Beginning; isBack: boolean; plan: Plan | undefined; reset: () => void }) {
  const t = useText(words);
  const { origin } = beginning;
  if (origin.kind === 'new' && !isBack) return null;
  const found = origin.kind === 'job' && origin.spec && plan ? differences(origin.spec, plan.spec as Record<string, Plain>) : null;
  return (
    <Alert color="blue" icon={<Icon name={origin.kind === 'new' ? 'edit' : 'link'} />} p="sm">
      <Group justify="space-between" gap="sm" align="flex-start">
        <div style={{ minWidth: 0, flex: 1 }}>
          <Text size="sm">
            {origin.kind === 'job' && (
              <>
                {t('fromJob')}{' '}
                <Anchor component={Link} to={`/jobs/${origin.id}`} size="sm">
                  {origin.name}
                </Anchor>
                {'. '}
              </>
            )}
            {origin.kind === 'template' && `${t('fromTemplate', { name: origin.name })} `}
            {found && (found.length > 0 ? t('differs', { count: found.length }) : t('differsNot'))}
            {isBack && ` ${t('draftBack')}`}
          </Text>
          {found && found.length > 0 && (
            <List size="sm" listStyleType="none" mt={4}>
              {found.slice(0, DIFFERENCES_SHOWN).map((each) => (
                <List.Item key={each.path} style={{ overflowWrap: 'anywhere' }}>
                  <Code>{each.path}</Code>: <del>{short(each.older)}</del> → <ins className={classes.newer}>{short(each.newer)}</ins>
                </List.Item>
              ))}
              {found.length > DIFFERENCES_SHOWN && <List.Item>…</List.Item>}
            </List>
          )}
        </div>
        {isBack && (
          <Confirm label={t('startOver')} title={t('startOverTitle')} size="compact-sm" variant="default" act={() => Promise.resolve(reset())}>
            {t('startOverHint')}
          </Confirm>
        )}
      </Group>
    </Alert>
  );
}

function short(value: Plain | undefined): string {
  if (value === undefined) return '–';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > VALUE_SHOWN ? `${text.slice(0, VALUE_SHOWN)}…` : text;
}
