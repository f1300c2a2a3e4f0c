/** How long jobs of a queue may run, and how many of a tenant's jobs hold capacity at a time. */

import { Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import { parseWhole } from '@/text/amounts';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Form } from '@/ui/Dialog';
import { Answer } from '@/ui/Feedback';
import { notify } from '@/ui/notify';

import type { Queue } from './draft';
import { words } from './text';

export function Rules({ queue, mayEdit, close }: { queue: Queue; mayEdit: boolean; close: () => void }) {
  const query = useQuery({ queryKey: ['queues', 'rules', queue.id], queryFn: () => take(api.GET('/api/v1/queues/{queue_id}/rules', { params: { path: { queue_id: queue.id } } })) });
  return <Answer query={query}>{(rules) => <Editor queue={queue} rules={rules} mayEdit={mayEdit} close={close} />}</Answer>;
}

/** As it is typed: hours, to the thousandth. */
function inHours(seconds: number | null): string {
  return seconds === null ? '' : String(Math.round((seconds / 3600) * 1000) / 1000);
}

/** What was typed, in seconds; not a number where it is no time, null where it is empty. */
function inSeconds(hours: string): number | null {
  if (hours.trim() === '') return null;
  const asked = Number(hours.replace(',', '.'));
  return asked > 0 && Number.isFinite(asked) ? Math.round(asked * 3600) : Number.NaN;
}

function Editor({ queue, rules, mayEdit, close }: { queue: Queue; rules: Schemas['RulesOut']; mayEdit: boolean; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const [hours, setHours] = useState(inHours(rules.max_runtime_seconds));
  const [planned, setPlanned] = useState(inHours(rules.default_runtime_seconds));
  const [jobs, setJobs] = useState(rules.max_jobs === null ? '' : String(rules.max_jobs));
  const [tasks, setTasks] = useState(rules.max_containers === null ? '' : String(rules.max_containers));
  const longest = inSeconds(hours);
  const usual = inSeconds(planned);
  const isWrong = Number.isNaN(longest) || Number.isNaN(usual) || Number.isNaN(parseWhole(jobs)) || Number.isNaN(parseWhole(tasks));
  const submit = async () => {
    await api.PUT('/api/v1/queues/{queue_id}/rules', {
      params: { path: { queue_id: queue.id }, header: { 'If-Match': `"${rules.version}"` } },
      body: { max_runtime_seconds: longest, default_runtime_seconds: usual, ...(queue.is_top ? { max_jobs: parseWhole(jobs), max_containers: parseWhole(tasks) } : {}) },
    });
    notify(t('rulesSaved', { name: queue.name }));
    await queries.invalidateQueries({ queryKey: ['queues'] });
    close();
  };
  const effective = rules.effective_max_runtime_seconds === null ? null : <Text size="sm">{t('runtimeNow', { time: format.duration(rules.effective_max_runtime_seconds) })}</Text>;
  if (!mayEdit) {
    return (
      <Stack gap="xs">
        <Text size="sm">
          {t('runtime')}: {hours || t('noneShort')}
        </Text>
        {effective}
        <Text size="sm">
          {t('defaultRuntime')}: {planned || t('noneShort')}
        </Text>
        {queue.is_top && (
          <Text size="sm">
            {t('maxJobs')}: {jobs || t('noneShort')}; {t('maxContainers')}: {tasks || t('noneShort')}
          </Text>
        )}
        <Text size="sm" c="dimmed">
          {t('rulesRead')}
        </Text>
      </Stack>
    );
  }
  return (
    <Form submit={submit} onCancel={close} label={c('save')} isReady={!isWrong}>
      {(at) => (
        <>
          <Text size="sm" c="dimmed">
            {t('rulesHint')}
          </Text>
          <TextInput label={t('runtime')} inputMode="decimal" value={hours} onChange={(event) => setHours(event.currentTarget.value)} error={at('/max_runtime_seconds')} placeholder={t('noneShort')} data-autofocus />
          {effective}
          <TextInput label={t('defaultRuntime')} description={t('defaultRuntimeHint')} inputMode="decimal" value={planned} onChange={(event) => setPlanned(event.currentTarget.value)} error={at('/default_runtime_seconds')} placeholder={t('noneShort')} />
          {queue.is_top ? (
            <>
              <TextInput label={t('maxJobs')} inputMode="numeric" value={jobs} onChange={(event) => setJobs(event.currentTarget.value)} error={at('/max_jobs')} placeholder={t('noneShort')} />
              <TextInput label={t('maxContainers')} inputMode="numeric" value={tasks} onChange={(event) => setTasks(event.currentTarget.value)} error={at('/max_containers')} placeholder={t('noneShort')} />
            </>
          ) : (
            <Text size="sm" c="dimmed">
              {t('onlyTop')}
            </Text>
          )}
        </>
      )}
    </Form>
  );
}
