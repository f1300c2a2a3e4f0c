/** What can be done with the rows chosen, and what became of each of them. */

import { Anchor, Button, Group, List, Menu, Progress, ScrollArea, Stack, Text, TextInput } from '@mantine/core';
import { useEffect, useRef, useState, type FormEvent, type ReactNode } from 'react';
import { Link } from 'react-router';

import { useSession } from '@/api/session';
import { compareAddress } from '@/pages/job/queries';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { stopSaid, stopWords } from '@/text/stopSaid';
import { Icon } from '@/ui/Icon';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';
import { StopReason } from '@/ui/StopReason';
import { Window } from '@/ui/Window';

import { actOnAll, BULK_MAX, type Deed, type Outcome, type PriorityName } from './bulk';
import classes from './Jobs.module.css';
import type { Job } from './merge';
import { useSelected, type Selection } from './selection';
import { words } from './text';

const PRIORITIES: readonly PriorityName[] = ['low', 'normal', 'high', 'urgent'];
const TAG_LENGTH = 63;

type Asked = Deed['kind'] | null;

/** In the place of the chips, so that the list below does not jump when the first row is ticked. */
export function Bulk({ selection, find, update, children }: { selection: Selection; find: (ids: readonly string[]) => Job[]; update: (jobs: readonly Job[]) => void; children: ReactNode }) {
  const t = useText(words);
  const session = useSession();
  const ids = useSelected(selection);
  const [asked, setAsked] = useState<Asked>(null);
  const [running, setRunning] = useState<{ jobs: Job[]; deed: Deed } | null>(null);
  const jobs = find(ids);
  const mayChange = jobs.some((job) => session.isOperator || session.may('manager', job.tenant.slug) || (job.user.id === session.who.user.id && session.may('member', job.tenant.slug)));
  const mayRerun = jobs.some((job) => session.may('member', job.tenant.slug));
  // The list may be in any order: of two that are chosen the one that was submitted first comes first.
  const [older, newer] = jobs.length === 2 ? [...jobs].sort((one, other) => one.submitted_at.localeCompare(other.submitted_at)) : [];
  const isTooMany = ids.length > BULK_MAX;
  const start = (deed: Deed) => {
    setAsked(null);
    setRunning({ jobs, deed });
  };
  return (
    <>
      {ids.length === 0 ? (
        <Group gap="sm" className={classes.bar}>
          {children}
        </Group>
      ) : (
      <Group gap="xs" className={classes.bar} role="toolbar" aria-label={t('selected', { count: ids.length })}>
        <Text fw={600} size="sm" role="status">
          {t('selected', { count: ids.length })}
        </Text>
        {isTooMany ? (
          <Text size="sm" c="red">
            {t('tooMany', { count: BULK_MAX })}
          </Text>
        ) : (
          <>
            {mayChange && (
              <Button size="xs" color="red" variant="light" leftSection={<Icon name="stop" size={14} />} aria-haspopup="dialog" onClick={() => setAsked('stop')}>
                {t('stop')}
              </Button>
            )}
            {older && newer && (
              <Button size="xs" variant="default" component={Link} to={compareAddress(older.id, newer.id)} leftSection={<Icon name="columns" size={14} />}>
                {t('compare')}
              </Button>
            )}
            {mayRerun && (
              <Button size="xs" variant="default" leftSection={<Icon name="refresh" size={14} />} aria-haspopup="dialog" onClick={() => setAsked('rerun')}>
                {t('rerun')}
              </Button>
            )}
            {mayChange && (
              <>
                <Button size="xs" variant="default" leftSection={<Icon name="tag" size={14} />} aria-haspopup="dialog" onClick={() => setAsked('tag')}>
                  {t('addTag')}
                </Button>
                <Button size="xs" variant="default" aria-haspopup="dialog" onClick={() => setAsked('untag')}>
                  {t('removeTag')}
                </Button>
                <Menu>
                  <Menu.Target>
                    <Button size="xs" variant="default" rightSection={<Icon name="down" size={14} />}>
                      {t('setPriority')}
                    </Button>
                  </Menu.Target>
                  <Menu.Dropdown>
                    {PRIORITIES.map((priority) => (
                      <Menu.Item key={priority} onClick={() => start({ kind: 'priority', priority })}>
                        {t(priority)}
                      </Menu.Item>
                    ))}
                  </Menu.Dropdown>
                </Menu>
              </>
            )}
          </>
        )}
        <Button size="xs" variant="subtle" onClick={() => selection.clear()}>
          {t('clearSelection')}
        </Button>
      </Group>
      )}
      <Ask asked={asked} jobs={jobs} close={() => setAsked(null)} start={start} />
      {running && <Run {...running} update={update} close={() => setRunning(null)} />}
    </>
  );
}

function Ask({ asked, jobs, close, start }: { asked: Asked; jobs: readonly Job[]; close: () => void; start: (deed: Deed) => void }) {
  const t = useText(words);
  const c = useText(common);
  const [tag, setTag] = useState('');
  const [reason, setReason] = useState('');
  const known = [...new Set(jobs.flatMap((job) => job.tags))].slice(0, 20);
  const isTag = asked === 'tag' || asked === 'untag';
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (asked === 'stop') start({ kind: asked, reason: reason.trim() || undefined });
    else if (asked === 'rerun') start({ kind: asked });
    else if ((asked === 'tag' || asked === 'untag') && tag.trim()) start({ kind: asked, tag: tag.trim() });
  };
  const title = asked === 'stop' ? t('stop') : asked === 'rerun' ? t('rerun') : asked === 'untag' ? t('removeTag') : t('addTag');
  return (
    <Window opened={asked !== null} onClose={close} title={title}>
      <form onSubmit={submit}>
        <Stack>
          {asked === 'stop' && (
            <>
              <Text>{t('stopAsk', { count: jobs.length })}</Text>
              <StopReason value={reason} change={setReason} />
            </>
          )}
          {asked === 'rerun' && <Text>{t('rerunAsk', { count: jobs.length })}</Text>}
          {isTag && <TextInput label={t('tag')} description={t('tagHint')} value={tag} maxLength={TAG_LENGTH} onChange={(event) => setTag(event.currentTarget.value)} required data-autofocus />}
          {asked === 'untag' && known.length > 0 && (
            <Group gap={6}>
              {known.map((each) => (
                <Button key={each} size="compact-xs" variant="default" onClick={() => setTag(each)}>
                  {each}
                </Button>
              ))}
            </Group>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              {c('cancel')}
            </Button>
            <Button type="submit" color={asked === 'stop' ? 'red' : undefined} data-autofocus={isTag ? undefined : true}>
              {asked === 'stop' || asked === 'rerun' ? title : t('doIt')}
            </Button>
          </Group>
        </Stack>
      </form>
    </Window>
  );
}

function Run({ jobs, deed, update, close }: { jobs: Job[]; deed: Deed; update: (jobs: readonly Job[]) => void; close: () => void }) {
  const t = useText(words);
  const s = useText(stopWords);
  const c = useText(common);
  const [outcomes, setOutcomes] = useState<Outcome[]>(() => jobs.map((job) => ({ job, state: 'waiting' })));
  const [isOver, setOver] = useState(false);
  const abort = useRef(new AbortController());
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    void actOnAll(jobs, deed, setOutcomes, abort.current.signal).then((all) => {
      setOver(true);
      if (deed.kind !== 'rerun') update(all.flatMap((each) => (each.after ? [each.after] : [])));
    });
  }, [jobs, deed, update]);
  const done = outcomes.filter((each) => each.state === 'done').length;
  const failed = outcomes.filter((each) => each.state === 'failed' || each.state === 'skipped').length;
  const leave = () => {
    abort.current.abort();
    close();
  };
  const marks = {
    waiting: { icon: 'hourglass', color: 'gray', label: t('pending') },
    done: { icon: 'check', color: 'teal', label: t('done') },
    failed: { icon: 'cross', color: 'red', label: t('failed') },
    skipped: { icon: 'pause', color: 'orange', label: t('notTried') },
  } as const;
  return (
    <Window onClose={leave} size="lg" title={isOver ? t('allDone', { done, failed }) : t('doing', { done: done + failed, count: jobs.length })}>
      <Stack>
        <Progress value={((done + failed) / Math.max(1, jobs.length)) * 100} color={failed > 0 && isOver ? 'orange' : 'teal'} aria-label={t('doing', { done: done + failed, count: jobs.length })} />
        <ScrollArea.Autosize mah="50vh">
          <List listStyleType="none" spacing="xs">
            {outcomes.map((outcome) => (
              <List.Item key={outcome.job.id}>
                <Group gap="xs" wrap="nowrap" align="flex-start">
                  <div style={{ flex: 'none' }}>
                    <Mark size="sm" {...marks[outcome.state]} />
                  </div>
                  <div style={{ minWidth: 0 }}>
                    <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
                      {outcome.job.name}{' '}
                      {deed.kind === 'rerun' && outcome.after && (
                        <Anchor component={Link} to={`/jobs/${outcome.after.id}`} size="sm">
                          {t('newJob')}
                        </Anchor>
                      )}
                    </Text>
                    {deed.kind === 'stop' && outcome.after && (
                      <Text size="xs" c="dimmed">
                        {s(stopSaid(outcome.after), { state: c(outcome.after.state) })}
                      </Text>
                    )}
                    {outcome.problem && (
                      <Text size="xs" c="red">
                        <Said text={[outcome.problem.detail || outcome.problem.title, outcome.problem.hint]} />
                      </Text>
                    )}
                  </div>
                </Group>
              </List.Item>
            ))}
          </List>
        </ScrollArea.Autosize>
        <Group justify="flex-end">
          {!isOver && (
            <Button variant="default" onClick={() => abort.current.abort()}>
              {t('halt')}
            </Button>
          )}
          <Button onClick={leave} disabled={!isOver}>
            {c('close')}
          </Button>
        </Group>
      </Stack>
    </Window>
  );
}
