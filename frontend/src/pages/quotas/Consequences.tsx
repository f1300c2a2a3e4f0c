/** What the typed limits would come to, asked anew at each pause of typing, and the button that does just that. */

import { Alert, Anchor, Button, Group, List, Loader, Paper, Stack, Text, TextInput, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { asProblem, type Problem } from '@/api/problem';
import { queries } from '@/api/query';
import { amountText, type Resource } from '@/text/amounts';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl, python } from '@/ui/CopyAs';
import { ProblemView } from '@/ui/Feedback';
import { Icon, type IconName } from '@/ui/Icon';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { notify } from '@/ui/notify';
import { Said } from '@/ui/Said';

import { unreadable, type Change, type Draft, type Queue } from './draft';
import type { Right } from './LimitTree';
import { words } from './text';

type Edit = Schemas['EditOut'];
type Body = Omit<Schemas['EditInRequest'], 'dry_run'>;
const PAUSE_MS = 500;
const JOBS_SHOWN = 12;

export function Consequences({ changes, rights, queues, draft, discard }: { changes: readonly Change[]; rights: ReadonlyMap<string, Right>; queues: ReadonlyMap<string, Queue>; draft: Draft; discard: () => void }) {
  const t = useText(words);
  const format = useFormat();
  const [from, setFrom] = useState<TypedMoment>('');
  const [comment, setComment] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [hasMoved, setMoved] = useState(false);
  const own = changes.filter((change) => rights.get(change.queue) === 'set');
  const asked = changes.filter((change) => rights.get(change.queue) === 'ask');
  const body: Body = { changes: own, comment: comment.trim(), effective_from: from || null };
  const text = JSON.stringify(body);
  const [settled] = useDebouncedValue(text, PAUSE_MS);
  const isWrong = unreadable(draft) || from === null;
  const trial = useQuery({
    queryKey: ['quotas', 'trial', settled],
    enabled: own.length > 0 && !isWrong,
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    queryFn: () => take(api.POST('/api/v1/quota/edits', { body: { ...(JSON.parse(settled) as Body), dry_run: true } })),
  });
  // Looked at again in the background it stays fresh: a button that is disabled for a moment loses a click, and the server
  // refuses a plan that has changed.
  const isFresh = settled === text && !trial.isPlaceholderData;
  const plan = trial.data;
  const mayApply = own.length > 0 && !isWrong && isFresh && plan !== undefined && plan.problems.length === 0;

  const done = async (said: string) => {
    notify(said);
    discard();
    await Promise.all(['queues', 'quotas', 'quota_requests', 'board'].map((name) => queries.invalidateQueries({ queryKey: [name] })));
  };
  const apply = async () => {
    setBusy(true);
    setProblem(null);
    setMoved(false);
    try {
      const made = await take(api.POST('/api/v1/quota/edits', { params: { query: { plan: plan?.plan } }, body: { ...body, dry_run: false } }));
      await done(made.state === 'pending' ? t('planned') : t('applied'));
    } catch (error) {
      const refused = asProblem(error);
      if (refused.code === 'plan_changed') {
        setMoved(true);
        await trial.refetch();
      } else setProblem(refused);
    } finally {
      setBusy(false);
    }
  };
  const ask = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const byTenant = new Map<string, Change[]>();
      for (const change of asked) {
        const slug = queues.get(change.queue)?.tenant?.slug ?? '';
        byTenant.set(slug, [...(byTenant.get(slug) ?? []), change]);
      }
      for (const [tenant, wanted] of byTenant) await api.POST('/api/v1/quota/requests', { body: { changes: wanted, tenant, reason: comment.trim(), effective_from: from || null } });
      await done(t('asked'));
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <Paper withBorder shadow="md" p="md" component="section" aria-label={t('planTitle')} style={{ position: 'sticky', bottom: 8, zIndex: 3, maxHeight: '55vh', overflow: 'auto' }}>
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={2} size="h4">
            {t('planTitle')}
          </Title>
          <Group gap="xs">
            {own.length > 0 && from !== null && (
              <CopyAs
                ways={() => ({
                  cli: `cat > limits.json <<'END'\n${JSON.stringify(entries(own, queues), null, 2)}\nEND\nberth queues edit --file limits.json --dry-run`,
                  curl: curl('POST', '/quota/edits', { ...body, dry_run: true }),
                  python: `from berth import Client\n\nwith Client() as client:\n    print(client.request("POST", "/quota/edits", json=${python({ ...body, dry_run: true })}))`,
                })}
              />
            )}
            <Button variant="default" onClick={discard}>
              {t('discard')}
            </Button>
          </Group>
        </Group>
        <div aria-live="polite">
          <Stack gap="xs">
            {hasMoved && (
              <Alert color="yellow" icon={<Icon name="refresh" />} role="alert" py="xs">
                {t('planMoved')}
              </Alert>
            )}
            {problem && <ProblemView error={problem} />}
            {own.length > 0 && (
              <Group gap="xs">
                <Text size="sm" fw={600}>
                  {t('changesCount', { count: own.length })}
                </Text>
                {!isFresh && !isWrong && (
                  <Group gap={6}>
                    <Loader size="xs" />
                    <Text size="sm" c="dimmed">
                      {t('working')}
                    </Text>
                  </Group>
                )}
              </Group>
            )}
            {own.length > 0 && trial.error && <ProblemView error={trial.error} retry={() => void trial.refetch()} />}
            {own.length > 0 && plan && <Told plan={plan} />}
            {asked.length > 0 && (
              <Text size="sm">
                <b>{t('asksCount', { count: asked.length })}</b> {t('askHint')}
              </Text>
            )}
          </Stack>
        </div>
        <Group align="flex-end">
          <MomentInput label={t('effectiveFrom')} description={t('effectiveHint', { zone: format.zoneName })} value={from} onChange={setFrom} error={problem?.at('/effective_from')} w={240} />
          <TextInput label={t('comment')} description={t('commentHint')} value={comment} onChange={(event) => setComment(event.currentTarget.value)} maxLength={1000} style={{ flex: '1 1 14rem' }} />
          {asked.length > 0 && (
            <Button variant={own.length ? 'default' : 'filled'} loading={isBusy} disabled={isWrong} onClick={() => void ask()} leftSection={<Icon name="approvals" size={16} />}>
              {t('ask')}
            </Button>
          )}
          {own.length > 0 && (
            <Button loading={isBusy} disabled={!mayApply} onClick={() => void apply()} leftSection={<Icon name="check" size={16} />}>
              {body.effective_from ? t('applyLater') : t('apply')}
            </Button>
          )}
        </Group>
      </Stack>
    </Paper>
  );
}

const GROUPS: readonly { what: 'starts' | 'waits' | 'is_evicted'; icon: IconName; color: string }[] = [
  { what: 'starts', icon: 'play', color: 'teal' },
  { what: 'waits', icon: 'hourglass', color: 'yellow' },
  { what: 'is_evicted', icon: 'alert', color: 'red' },
];

/** A plan in words: breaks, who would hold too much, and what would become of jobs. */
export function Told({ plan }: { plan: Edit }) {
  const t = useText(words);
  if (plan.problems.length > 0) {
    return (
      <Alert color="red" icon={<Icon name="alert" />} title={t('refused')} py="xs">
        <List size="sm">
          {plan.problems.map((found, index) => (
            <List.Item key={index}>
              <b>{named(plan, found.path)}</b> <Said text={[spoken(plan, found.path, found.message), spoken(plan, found.path, found.hint ?? '')]} />
            </List.Item>
          ))}
        </List>
      </Alert>
    );
  }
  const forecast = plan.forecast;
  if (!forecast) return null;
  return (
    <Stack gap="xs">
      {forecast.over.length > 0 && (
        <Alert color="yellow" icon={<Icon name="alert" />} title={t('overTitle')} py="xs">
          <List size="sm">
            {forecast.over.map((over, index) => (
              <List.Item key={index}>
                {t(over.column === 'ceiling' ? 'overCeiling' : 'overDeserved', {
                  queue: over.queue.name,
                  pool: over.pool?.name ?? '',
                  used: `${amountText(over.resource as Resource, over.used)} ${t(over.resource as Resource)}`,
                  limit: amountText(over.resource as Resource, over.limit),
                })}{' '}
                {over.was_over && t('overBefore')}
              </List.Item>
            ))}
          </List>
        </Alert>
      )}
      {forecast.jobs === null ? (
        <Text size="sm" c="dimmed">
          {t('unknownJobs')}
        </Text>
      ) : forecast.jobs.length === 0 ? (
        <Text size="sm">
          <Icon name="check" size={14} /> {t('nothingHappens')}
        </Text>
      ) : (
        <Group align="flex-start" gap="xl">
          {GROUPS.map(({ what, icon, color }) => {
            const jobs = forecast.jobs?.filter((job) => job.what === what) ?? [];
            if (jobs.length === 0) return null;
            return (
              <Stack key={what} gap={2} style={{ flex: '1 1 14rem' }}>
                <Text size="sm" fw={600} c={color === 'red' ? 'red' : undefined}>
                  <Icon name={icon} size={14} /> {t(what, { count: jobs.length })}
                </Text>
                {jobs.slice(0, JOBS_SHOWN).map((job) => (
                  <Text key={job.job_id} size="sm" style={{ overflowWrap: 'anywhere' }}>
                    <Anchor component={Link} to={`/jobs/${job.job_id}`} size="sm">
                      {job.name}
                    </Anchor>{' '}
                    <Text span size="xs" c="dimmed">
                      <Said text={job.why} />
                    </Text>
                  </Text>
                ))}
                {jobs.length > JOBS_SHOWN && <Text size="xs">{t('moreChanges', { count: jobs.length - JOBS_SHOWN })}</Text>}
              </Stack>
            );
          })}
        </Group>
      )}
    </Stack>
  );
}

/** `/changes/1/deserved` as `vision, deserved:`. */
function named(plan: Edit, path: string): string {
  const found = /^\/changes\/(\d+)(?:\/(\w+))?/.exec(path);
  const queue = found ? plan.changes[Number(found[1])]?.queue?.name : undefined;
  return queue ? `${queue}${found?.[2] ? `, ${found[2]}` : ''}:` : '';
}

/** The platform counts thousandths and bytes; people count GPUs, cores and GiB. */
function spoken(plan: Edit, path: string, text: string): string {
  const found = /^\/changes\/(\d+)(?:\/(\w+))?/.exec(path);
  const resource = found && found[2] !== 'weight' ? (plan.changes[Number(found[1])]?.resource as Resource | undefined) : undefined;
  return resource ? text.replace(/(?<![-\w.])\d{3,}(?![-\w])/g, (digits) => amountText(resource, Number(digits))) : text;
}

const SHORT: Record<Resource, string> = { gpu_millis: 'gpu', cpu_millis: 'cpu', memory_bytes: 'memory' };

/** As `berth queues edit --file` reads it. */
function entries(changes: readonly Change[], queues: ReadonlyMap<string, Queue>): object[] {
  return changes.map((change) => {
    const resource = change.resource;
    const pool = queues.get(change.queue)?.pools.find((part) => part.pool.id === change.pool)?.pool;
    const entry: Record<string, unknown> = { queue: change.queue, pool: pool ? `${pool.cluster}/${pool.name}` : change.pool };
    for (const column of ['guarantee', 'deserved', 'ceiling', 'weight'] as const) {
      const value = change[column];
      if (value === undefined) continue;
      entry[column] = { [SHORT[resource]]: column === 'weight' ? value : value === null ? 'none' : `${amountText(resource, value)}${resource === 'memory_bytes' ? 'Gi' : ''}` };
    }
    return entry;
  });
}
