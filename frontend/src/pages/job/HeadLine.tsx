/** The line below a job's name: its state, whose it is, where it runs and since when, its tags, and whether this is live. */

import { Anchor, Badge, CloseButton, Group, Text, TextInput, Tooltip, type MantineColor } from '@mantine/core';
import { useState, useSyncExternalStore, type FormEvent } from 'react';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { live, type LiveState } from '@/api/live';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Icon, type IconName } from '@/ui/Icon';
import { notifyProblem } from '@/ui/notify';
import { plain } from '@/ui/plain';
import { Mark, Status } from '@/ui/Status';
import { Elapsed, When } from '@/ui/Times';

import { compareAddress, hasEnded, isArray, type Job, type Rights } from './queries';
import { words } from './text';

export function HeadLine({ job, rights }: { job: Job; rights: Rights }) {
  const t = useText(words);
  const c = useText(common);
  const origin = job.origin as { id?: string; kind?: string } | null;
  return (
    <Group gap="xs" component="div">
      <span role="status">
        <Status state={job.state} size="lg" />
      </span>
      {job.hold && <Mark icon="pause" color="orange" label={t('held')} />}
      {job.desired === 'stop' && !hasEnded(job) && <Mark icon="stop" color="orange" label={job.reason?.code === 'stopping' ? plain(job.reason.text) : t('beingStopped')} />}
      {job.condition && <Mark icon="alert" color="red" label={t('condition', { condition: job.condition })} />}
      {job.gpus_simulated && <Mark icon="info" color="grape" label={c('simulated')} />}
      <Text size="sm" component="span" style={{ overflowWrap: 'anywhere' }}>
        {c('tenant')} <bdi>{job.tenant.name}</bdi> · {c('queue')} <bdi>{job.queue.name}</bdi> · {c('user')} {job.user.name}
        {job.pool && ` · ${c('pool')} ${job.pool}`}
        {job.cluster && ` · ${c('cluster')} ${job.cluster}`}
      </Text>
      <Text size="sm" component="span">
        <Since job={job} />
      </Text>
      {isArray(job) && (
        <Anchor component={Link} to={`/jobs?parent=${job.id}`} size="sm">
          {t('array', { size: job.array?.size ?? 0 })}
        </Anchor>
      )}
      {job.parent_id && (
        <Anchor component={Link} to={`/jobs/${job.parent_id}`} size="sm">
          {t('arrayChild', { index: job.array?.index ?? 0 })}
        </Anchor>
      )}
      {origin?.id && (
        <>
          <Anchor component={Link} to={`/jobs/${origin.id}`} size="sm">
            {origin.kind === 'clone' ? t('cloneOf') : t('rerunOf')} {t('anotherJob')}
          </Anchor>
          <Anchor component={Link} to={compareAddress(origin.id, job.id)} size="sm">
            {t('compareOrigin')}
          </Anchor>
        </>
      )}
      <Tags job={job} mayEdit={rights.edit} />
      {!hasEnded(job) && <Liveness />}
    </Group>
  );
}

function Since({ job }: { job: Job }) {
  const t = useText(words);
  if (hasEnded(job)) {
    return (
      <>
        {t('ended')} <When at={job.ended_at} />
        {job.started_at && (
          <>
            {' '}
            · {t('took')} <Elapsed from={job.started_at} to={job.ended_at} />
          </>
        )}
      </>
    );
  }
  if (job.state === 'running' && job.started_at) {
    return (
      <>
        {t('sinceStarted')} <Elapsed from={job.started_at} to={null} />
      </>
    );
  }
  return (
    <>
      {t('sinceSubmitted')} <When at={job.submitted_at} />
    </>
  );
}

const LIVENESS = {
  open: { word: 'liveOn', color: 'teal', icon: 'check' },
  connecting: { word: 'liveConnecting', color: 'gray', icon: 'refresh' },
  lost: { word: 'liveLost', color: 'orange', icon: 'refresh' },
} as const satisfies Record<LiveState, { word: 'liveOn' | 'liveConnecting' | 'liveLost'; color: MantineColor; icon: IconName }>;

export function useLiveState(): LiveState {
  return useSyncExternalStore(live.watch, () => live.state);
}

function Liveness() {
  const t = useText(words);
  const look = LIVENESS[useLiveState()];
  return (
    <Tooltip label={t('liveHint')}>
      <span>
        <Mark icon={look.icon} color={look.color} label={t(look.word)} size="sm" />
      </span>
    </Tooltip>
  );
}

function Tags({ job, mayEdit }: { job: Job; mayEdit: boolean }) {
  const t = useText(words);
  const c = useText(common);
  const [isAdding, setAdding] = useState(false);
  const [name, setName] = useState('');
  const change = async (tag: string, isThere: boolean) => {
    try {
      const path = { params: { path: { job: job.id, tag } } };
      await take(isThere ? api.PUT('/api/v1/jobs/{job}/tags/{tag}', path) : api.DELETE('/api/v1/jobs/{job}/tags/{tag}', path));
      await queries.invalidateQueries({ queryKey: ['job', job.id] });
      return true;
    } catch (error) {
      notifyProblem(error);
      return false;
    }
  };
  const add = async (event: FormEvent) => {
    event.preventDefault();
    const tag = name.trim();
    if (tag && (await change(tag, true))) {
      setName('');
      setAdding(false);
    }
  };
  return (
    <Group gap={6} component="span">
      {job.tags.map((tag) => (
        <Badge
          key={tag}
          variant="default"
          tt="none"
          fw={500}
          maw="20rem"
          rightSection={mayEdit ? <CloseButton size="xs" aria-label={t('removeTag', { tag })} onClick={() => void change(tag, false)} /> : undefined}
        >
          {tag}
        </Badge>
      ))}
      {mayEdit &&
        (isAdding ? (
          <form onSubmit={(event) => void add(event)}>
            <TextInput
              size="xs"
              w="9rem"
              autoFocus
              aria-label={t('addTag')}
              placeholder={t('addTag')}
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              onKeyDown={(event) => event.key === 'Escape' && setAdding(false)}
              onBlur={() => !name && setAdding(false)}
              rightSection={<CloseButton size="xs" aria-label={c('cancel')} onClick={() => setAdding(false)} />}
            />
          </form>
        ) : (
          <Anchor component="button" type="button" size="sm" onClick={() => setAdding(true)}>
            <Group gap={4} component="span">
              <Icon name="tag" size={14} />
              {t('addTag')}
            </Group>
          </Anchor>
        ))}
    </Group>
  );
}
