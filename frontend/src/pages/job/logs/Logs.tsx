/** The log of a job: which task and stream, how it is shown, search and errors in it, and the log itself. */

import { ActionIcon, Button, Group, Loader, Menu, SegmentedControl, Select, Stack, Switch, Text, TextInput, Tooltip } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';
import { useSearchParams } from 'react-router';

import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { save } from '@/ui/files';
import { Icon, type IconName } from '@/ui/Icon';

import { AttemptChoice, useAttempt } from '../AttemptChoice';
import { useLiveState } from '../HeadLine';
import { hasEnded, tasksQuery, type Job, type Task } from '../queries';
import classes from './Logs.module.css';
import { plainOf } from './logWindow';
import { LogView, type LogViewHandle } from './LogView';
import { indexOfId, MATCHES_MAX, Search } from './search';
import { words } from './text';
import { SCAN_CHARS_MAX, useLog, type LogReader } from './useLog';

const OPTIONS_SHOWN = 100;
const TYPING_MS = 150;

export default function Logs({ job }: { job: Job }) {
  const [search] = useSearchParams();
  const attempt = useAttempt(job) ?? job.attempt;
  const role = search.get('role');
  const index = search.get('index') !== null && /^\d{1,7}$/.test(search.get('index') ?? '') ? Number(search.get('index')) : null;
  const asked = search.get('stream');
  const stream = asked === 'stdout' || asked === 'stderr' ? asked : null;
  const reader = useLog({ job: job.id, attempt, role, index, stream });
  const tasks = useQuery(tasksQuery(job.id, attempt === job.attempt ? null : attempt));
  return <Screen key={`${attempt} ${role} ${index} ${stream}`} job={job} attempt={attempt} role={role} index={index} stream={stream} reader={reader} tasks={tasks.data?.items ?? []} />;
}

function Screen({ job, attempt, role, index, stream, reader, tasks }: { job: Job; attempt: number; role: string | null; index: number | null; stream: 'stdout' | 'stderr' | null; reader: LogReader; tasks: readonly Task[] }) {
  const t = useText(words);
  const view = useRef<LogViewHandle>(null);
  const [wrap, setWrap] = useLocalStorage({ key: 'berth-log-wrap', defaultValue: false, getInitialValueInEffect: false });
  const [withTime, setTime] = useLocalStorage({ key: 'berth-log-times', defaultValue: false, getInitialValueInEffect: false });
  const [isFollowing, setFollowingState] = useState(true);
  const [note, setNote] = useState<string | null>(null);
  const format = useFormat();
  const setFollowing = useCallback(
    (value: boolean) => {
      setFollowingState(value);
      reader.setWatched(value);
    },
    [reader],
  );
  const toEnd = async () => {
    if (!reader.window.isAttached) await reader.toEnd();
    setFollowing(true);
    view.current?.toEnd();
  };
  const toStart = async () => {
    setFollowing(false);
    if (!reader.window.isAtStart) await reader.toStart();
    view.current?.toTop();
  };
  const find = useFinding(reader, setFollowing, view);
  const firstError = async () => {
    setNote(t('firstErrorSearching'));
    setFollowing(false);
    const found = await reader.firstError();
    setNote(found === null ? t('firstErrorNone') : found === undefined ? t('firstErrorFar', { size: format.bytes(SCAN_CHARS_MAX) }) : null);
    if (typeof found === 'number') find.goTo(found);
    else if (reader.window.isAttached) setFollowing(true);
  };
  const isSingle = role !== null && index !== null;
  const withTask = !isSingle && new Set(tasks.map((task) => `${task.role}-${task.index}`)).size !== 1;
  const { lines } = reader.window;
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <AttemptChoice job={job} />
        <TaskChoice tasks={tasks} role={role} index={index} />
        <StreamChoice stream={stream} />
        <Finder find={find} />
        <Button variant="default" size="sm" leftSection={<Icon name="alert" size={15} />} onClick={() => void firstError()} loading={reader.reading === 'error'}>
          {t('firstError')}
        </Button>
        <Switch label={t('wrap')} checked={wrap} onChange={(event) => setWrap(event.currentTarget.checked)} />
        <Switch label={t('times')} checked={withTime} onChange={(event) => setTime(event.currentTarget.checked)} />
        <Download job={job} attempt={attempt} role={role} index={index} tasks={tasks} reader={reader} />
      </Group>
      {note && (
        <Text size="sm" role="status">
          {note}
        </Text>
      )}
      {reader.problem !== null && <ProblemView error={reader.problem} retry={() => void reader.toEnd()} />}
      {!reader.isReady && !reader.problem ? (
        <Loading lines={12} />
      ) : lines.length === 0 && reader.window.isAttached ? (
        reader.problem === null && (
          <Empty icon="jobs" title={hasEnded(job) ? t('emptyEnded') : t('empty')} command={`berth logs ${job.id} --follow`}>
            {hasEnded(job) ? t('emptyEndedHint') : t('emptyHint')}
          </Empty>
        )
      ) : (
        <div className={classes.frame} data-keys="own">
          {(reader.reading === 'older' || reader.reading === 'start' || reader.reading === 'end') && (
            <Group gap={6} className={classes.top}>
              <Loader size="xs" />
              <Text size="xs">{t('reading')}</Text>
            </Group>
          )}
          <LogView reader={reader} isFollowing={isFollowing} setFollowing={setFollowing} wrap={wrap} withTime={withTime} withTask={withTask} word={find.word} current={find.current} ref={view} />
          {!isFollowing && (
            <Button className={classes.badge} size="xs" radius="xl" leftSection={<Icon name="down" size={14} />} onClick={() => void toEnd()}>
              {reader.window.unseen > 0 && reader.window.isAttached ? t('newLines', { count: reader.window.unseen }) : t('toEnd')}
            </Button>
          )}
          <Foot reader={reader} isFollowing={isFollowing} toStart={() => void toStart()} toEnd={() => void toEnd()} />
        </div>
      )}
    </Stack>
  );
}

function Foot({ reader, isFollowing, toStart, toEnd }: { reader: LogReader; isFollowing: boolean; toStart: () => void; toEnd: () => void }) {
  const t = useText(words);
  const format = useFormat();
  const connection = useLiveState();
  const { window: held } = reader;
  const isLive = held.isAttached && !held.isComplete;
  const state = held.isComplete && held.isAttached ? t('complete') : reader.ended ? t('ended', { code: reader.ended }) : isLive && connection === 'lost' ? t('lost') : isFollowing ? t('following') : t('paused');
  return (
    <div className={classes.foot}>
      <Text size="xs" c="dimmed" role="status">
        {state}
      </Text>
      <Group gap="sm">
        <Text size="xs" c="dimmed">
          {t('held', { count: format.number(held.lines.length) })}
          {held.isAtStart ? ` · ${t('beginning')}` : ''}
        </Text>
        <Button size="compact-xs" variant="subtle" onClick={toStart}>
          {t('toStart')}
        </Button>
        <Button size="compact-xs" variant="subtle" onClick={toEnd}>
          {t('toEnd')}
        </Button>
        {reader.ended && (
          <Button size="compact-xs" variant="subtle" onClick={() => void reader.toEnd()}>
            {t('follow')}
          </Button>
        )}
      </Group>
    </div>
  );
}

function TaskChoice({ tasks, role, index }: { tasks: readonly Task[]; role: string | null; index: number | null }) {
  const t = useText(words);
  const [, change] = useAddress();
  const data = useMemo(() => {
    const roles = [...new Set(tasks.map((task) => task.role))];
    return [
      { value: 'all', label: t('allTasks') },
      ...(roles.length > 1 ? roles.map((name) => ({ value: `role/${name}`, label: `${t('role')} ${name}` })) : []),
      ...tasks.map((task) => ({ value: `task/${task.role}/${task.index}`, label: `${task.role}-${task.index}` })),
    ];
  }, [tasks, t]);
  const value = role === null ? 'all' : index === null ? `role/${role}` : `task/${role}/${index}`;
  const shown = data.some((option) => option.value === value) ? data : [...data, { value, label: index === null ? (role ?? '') : `${role}-${index}` }];
  if (tasks.length < 2 && role === null) return null;
  return (
    <Select
      aria-label={t('task')}
      w="11rem"
      searchable
      allowDeselect={false}
      limit={OPTIONS_SHOWN}
      data={shown}
      value={value}
      onChange={(chosen) => {
        const [kind, name, number] = (chosen ?? 'all').split('/');
        change({ role: kind === 'all' ? null : (name ?? null), index: kind === 'task' ? (number ?? null) : null });
      }}
    />
  );
}

function StreamChoice({ stream }: { stream: 'stdout' | 'stderr' | null }) {
  const t = useText(words);
  const [, change] = useAddress();
  return (
    <SegmentedControl
      aria-label={t('stream')}
      value={stream ?? 'both'}
      onChange={(value) => change({ stream: value === 'both' ? null : value })}
      data={[
        { value: 'both', label: t('both') },
        { value: 'stdout', label: t('stdout') },
        { value: 'stderr', label: t('stderr') },
      ]}
    />
  );
}

interface Finding {
  text: string;
  setText: (text: string) => void;
  word: string;
  count: number;
  position: number;
  current: number | null;
  step: (by: 1 | -1) => void;
  goTo: (id: number) => void;
}

/** The word that is searched for, the lines that hold it, and which of them is looked at. */
function useFinding(reader: LogReader, setFollowing: (value: boolean) => void, view: { current: LogViewHandle | null }): Finding {
  const [parameters, setParameters] = useSearchParams();
  const asked = parameters.get('q') ?? '';
  const [text, setText] = useState(asked);
  const [current, setCurrent] = useState<number | null>(null);
  const [, redraw] = useState(0);
  const search = useMemo(() => (asked ? new Search(asked, () => redraw((value) => value + 1)) : null), [asked]);
  const { lines, version } = reader.window;
  useEffect(() => {
    if (text === asked) return undefined;
    const timer = setTimeout(() => {
      const next = new URLSearchParams(window.location.search);
      if (text) next.set('q', text);
      else next.delete('q');
      setCurrent(null);
      setParameters(next, { replace: true });
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, asked, setParameters]);
  useEffect(() => {
    search?.look(lines);
    return () => search?.stop();
  }, [search, lines, version]);
  const matches = search?.matches ?? [];
  const goTo = (id: number) => {
    setFollowing(false);
    setCurrent(id);
    view.current?.show(id);
  };
  const position = current === null ? -1 : matches.indexOf(current);
  const step = (by: 1 | -1) => {
    if (matches.length === 0) return;
    const alive = matches.filter((id) => indexOfId(reader.window.lines, id) >= 0);
    const at = current === null ? -1 : alive.indexOf(current);
    // The first step goes to the newest match: that is where one looks.
    const next = at < 0 ? alive.length - 1 : (at + by + alive.length) % alive.length;
    const id = alive[next];
    if (id !== undefined) goTo(id);
  };
  return { text, setText, word: asked, count: matches.length, position, current, step, goTo };
}

function Finder({ find }: { find: Finding }) {
  const t = useText(words);
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Enter') {
      event.preventDefault();
      find.step(event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') find.setText('');
  };
  const told = !find.word ? '' : find.count === 0 ? t('noMatch') : t(find.count >= MATCHES_MAX ? 'matchesMany' : 'matches', { at: find.position < 0 ? '–' : find.position + 1, count: find.count });
  return (
    <Group gap={4} wrap="nowrap">
      <TextInput
        type="search"
        aria-label={t('search')}
        placeholder={t('search')}
        w="11rem"
        value={find.text}
        onChange={(event) => find.setText(event.currentTarget.value)}
        onKeyDown={press}
        leftSection={<Icon name="search" size={15} />}
      />
      <Step icon="left" label={t('previous')} act={() => find.step(-1)} isOff={find.count === 0} />
      <Step icon="right" label={t('next')} act={() => find.step(1)} isOff={find.count === 0} />
      {told && (
        <Text size="xs" c="dimmed" role="status" miw="5rem">
          {told}
        </Text>
      )}
    </Group>
  );
}

function Step({ icon, label, act, isOff }: { icon: IconName; label: string; act: () => void; isOff: boolean }) {
  return (
    <Tooltip label={label}>
      <ActionIcon variant="default" size="lg" aria-label={label} onClick={act} disabled={isOff}>
        <Icon name={icon} size={16} />
      </ActionIcon>
    </Tooltip>
  );
}

function Download({ job, attempt, role, index, tasks, reader }: { job: Job; attempt: number; role: string | null; index: number | null; tasks: readonly Task[]; reader: LogReader }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const only = tasks.length === 1 ? tasks[0] : undefined;
  const task = role !== null && index !== null ? { role, index } : only;
  const keep = () => {
    const isMerged = new Set(reader.window.lines.map((line) => `${line.role}-${line.index}`)).size > 1;
    save(`${job.name}-${attempt}.log`, reader.window.lines.map((line) => `${isMerged ? `${line.role}-${line.index} ` : ''}${plainOf(line)}\n`));
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" size="sm" leftSection={<Icon name="download" size={15} />}>
          {c('download')}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={keep}>{t('downloadShown', { count: format.number(reader.window.lines.length) })}</Menu.Item>
        {task ? (
          (['stdout', 'stderr'] as const).map((name) => (
            <Menu.Item key={name} component="a" href={`/api/v1/jobs/${job.id}/attempts/${attempt}/tasks/${encodeURIComponent(task.role)}/${task.index}/logs/${name}`} download={`${job.name}-${task.role}-${task.index}.${name}.log`}>
              {t('downloadStream', { stream: name, task: `${task.role}-${task.index}` })}
            </Menu.Item>
          ))
        ) : (
          <Menu.Label>{t('downloadHint')}</Menu.Label>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
