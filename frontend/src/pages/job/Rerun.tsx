/** A rerun with changes: the spec as it was, to be edited, with what differs beside it before anything is submitted. */

import { Alert, Button, Group, List, Stack, Text, Textarea } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useNavigate } from 'react-router';
import { parse, stringify } from 'yaml';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import { changedParts } from '@/api/rerun';
import { inFull, writeSpec } from '@/pages/submit/spec';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { CopyAs, curl, python, quote } from '@/ui/CopyAs';
import { Answer, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { Said } from '@/ui/Said';

import { StartFrom } from './checkpoint/StartFrom';
import { DiffView } from './DiffView';
import { specQuery, type Job } from './queries';
import { words } from './text';

type Spec = Record<string, unknown>;

interface RerunProps {
  job: Job;
  /** What was typed in this window before it was closed; null: nothing. */
  draft: string | null;
  keep: (draft: string | null) => void;
  close: () => void;
}

export default function Rerun({ job, ...rest }: RerunProps) {
  const query = useQuery(specQuery(job.id));
  return <Answer query={query}>{(spec) => <Editor job={job} spec={spec} {...rest} />}</Answer>;
}

function Editor({ job, spec, draft, keep, close }: RerunProps & { spec: Spec }) {
  const t = useText(words);
  const c = useText(common);
  const navigate = useNavigate();
  const older = useMemo(() => writeSpec(spec), [spec]);
  // Both sides as files say them: `2Gi` that stayed is no change, though the API keeps bytes.
  const asWritten = useMemo(() => parse(older) as Spec, [older]);
  const [text, setText] = useState(draft ?? older);
  const read = useMemo(() => readSpec(text), [text]);
  const problem = 'problem' in read ? (read.problem === null ? t('notMapping') : t('notYaml', { problem: read.problem })) : null;
  const changes = 'spec' in read ? changedParts(inFull(asWritten), inFull(read.spec)) : {};
  const path = { path: { job: job.id } };
  const check = useMutation({
    mutationFn: async () => (await take(api.POST('/api/v1/jobs/{job}/rerun', { params: { ...path, query: { dry_run: true } }, body: { changes } }))) as Schemas['PlanOut'],
  });
  const start = useMutation({
    mutationFn: async () => (await take(api.POST('/api/v1/jobs/{job}/rerun', { params: path, body: { changes } }))) as Schemas['JobOut'],
    onSuccess: (made) => {
      notify(t('rerunStarted', { name: made.name }));
      void queries.invalidateQueries({ queryKey: ['jobs'] });
      keep(null);
      close();
      void navigate(`/jobs/${made.id}`);
    },
  });
  const edit = (value: string) => {
    setText(value);
    keep(value === older ? null : value);
    check.reset();
    start.reset();
  };
  const sets = Object.entries(changes).map(([key, value]) => `--set ${quote(`${key}=${value === null ? 'null' : typeof value === 'string' ? value : JSON.stringify(value)}`)}`);
  return (
    <Stack>
      <Text size="sm" c="dimmed">
        {t('rerunHint')}
      </Text>
      <Textarea
        label={t('rerunSpec')}
        value={text}
        onChange={(event) => edit(event.currentTarget.value)}
        error={problem}
        autosize
        minRows={8}
        maxRows={20}
        spellCheck={false}
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: 'var(--mantine-font-size-xs)' } }}
        data-autofocus
      />
      <StartFrom job={job.id} text={text} onText={edit} />
      <Text size="sm" fw={600}>
        {t('changes')}
      </Text>
      {'spec' in read && <DiffView older={older} newer={stringify(inOrder(read.spec, asWritten), { lineWidth: 0 })} />}
      {(start.error ?? check.error) && <ProblemView error={start.error ?? check.error} />}
      {check.data && !start.error && (
        <Alert color={check.data.warnings.length > 0 ? 'yellow' : 'teal'} icon={<Icon name={check.data.warnings.length > 0 ? 'alert' : 'check'} />} title={check.data.warnings.length > 0 ? t('warnings') : t('rerunFine')}>
          {check.data.warnings.length > 0 && (
            <List size="sm">
              {check.data.warnings.map((warning) => (
                <List.Item key={warning}>
                  <Said text={warning} />
                </List.Item>
              ))}
            </List>
          )}
        </Alert>
      )}
      <Group justify="space-between">
        <CopyAs
          ways={() => ({
            cli: ['berth rerun', quote(job.id), ...sets].join(' '),
            curl: curl('POST', `/jobs/${job.id}/rerun`, { changes }),
            python: `from berth import Client\n\nberth = Client()\njob = berth.jobs.rerun("${job.id}", changes=${python(changes)})\nprint(job.id)`,
          })}
        />
        <Group>
          <Button variant="default" onClick={close}>
            {c('cancel')}
          </Button>
          <Button variant="default" disabled={problem !== null} loading={check.isPending} onClick={() => check.mutate()}>
            {t('rerunCheck')}
          </Button>
          <Button disabled={problem !== null} loading={start.isPending} onClick={() => start.mutate()} leftSection={<Icon name="refresh" size={16} />}>
            {t('rerunDo')}
          </Button>
        </Group>
      </Group>
    </Stack>
  );
}

function readSpec(text: string): { spec: Spec } | { problem: string | null } {
  try {
    const value: unknown = parse(text);
    return value && typeof value === 'object' && !Array.isArray(value) ? { spec: value as Spec } : { problem: null };
  } catch (error) {
    return { problem: (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? '' };
  }
}

/** The keys as the older spec has them, so that moved lines are no changes. */
function inOrder(spec: Spec, like: Spec): Spec {
  const keys = [...Object.keys(like).filter((key) => key in spec), ...Object.keys(spec).filter((key) => !(key in like))];
  return Object.fromEntries(keys.map((key) => [key, spec[key]]));
}
