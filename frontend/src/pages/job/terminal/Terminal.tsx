/** A shell in a running task. Opened by a press, never by an address alone: whoever opens one is recorded. */

import { Alert, Button, Group, Select, Stack, Text, useComputedColorScheme } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal as Xterm } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useSearchParams } from 'react-router';

import { useText } from '@/text/language';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { plain } from '@/ui/plain';

import { tasksQuery, type Job, type Task } from '../queries';
import { ExecConnection, type Ended } from './connection';
import { withNonce } from './styled';
import classes from './Terminal.module.css';
import { words } from './text';

const SCROLLBACK = 5_000;
const THEMES = {
  light: { background: '#fcfcfd', foreground: '#1f2328', cursor: '#0b7285', selectionBackground: '#b6e3ff' },
  dark: { background: '#16181b', foreground: '#d6d9dc', cursor: '#3bbfd2', selectionBackground: '#264f78' },
} as const;

type Phase = { name: 'connecting' | 'connected' } | { name: 'ended'; ended: Ended };

export default function Terminal({ job }: { job: Job }) {
  const t = useText(words);
  const query = useQuery(tasksQuery(job.id, null));
  return (
    <Answer query={query}>
      {(tasks) => {
        const running = tasks.items.filter((task) => task.state === 'running');
        if (running.length === 0) {
          return (
            <Empty icon="terminal" title={t('noTask')} command={`berth exec ${job.id}`}>
              {t('noTaskHint')}
            </Empty>
          );
        }
        return <Chosen job={job} running={running} />;
      }}
    </Answer>
  );
}

const nameOf = (task: Task) => `${task.role}-${task.index}`;

function Chosen({ job, running }: { job: Job; running: readonly Task[] }) {
  const t = useText(words);
  const [search, setSearch] = useSearchParams();
  const asked = `${search.get('role') ?? ''}-${search.get('index') ?? ''}`;
  const [opened, setOpened] = useState<{ task: Task; number: number } | null>(null);
  const task = running.find((each) => nameOf(each) === asked) ?? running[0];
  if (!task) return null;
  return (
    <Stack gap="sm">
      <Group gap="sm">
        {running.length > 1 && (
          <Select
            aria-label={t('task')}
            w="12rem"
            searchable
            allowDeselect={false}
            limit={100}
            data={running.map(nameOf)}
            value={nameOf(task)}
            disabled={opened !== null}
            onChange={(value) => {
              const chosen = running.find((each) => nameOf(each) === value);
              if (chosen) setSearch({ role: chosen.role, index: String(chosen.index) }, { replace: true });
            }}
          />
        )}
        {opened ? (
          <Button variant="default" onClick={() => setOpened(null)} leftSection={<Icon name="cross" size={15} />}>
            {t('close')}
          </Button>
        ) : (
          <Button onClick={() => setOpened({ task, number: Date.now() })} leftSection={<Icon name="terminal" size={15} />}>
            {t('open')}
          </Button>
        )}
      </Group>
      <Text size="sm" c="dimmed">
        {t('hint')}
      </Text>
      {opened && <Shell key={opened.number} job={job} task={opened.task} again={() => setOpened({ task, number: Date.now() })} />}
    </Stack>
  );
}

function Shell({ job, task, again }: { job: Job; task: Task; again: () => void }) {
  const t = useText(words);
  const scheme = useComputedColorScheme('light');
  const place = useRef<HTMLDivElement>(null);
  const exit = useRef<HTMLDivElement>(null);
  const [phase, setPhase] = useState<Phase>({ name: 'connecting' });
  const screen = useRef<Xterm | null>(null);
  const target = useMemo(() => ({ job: job.id, role: task.role, index: task.index }), [job.id, task.role, task.index]);

  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const terminal = new Xterm({
      cursorBlink: true,
      fontSize: 13,
      fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Noto Sans Mono", monospace',
      scrollback: SCROLLBACK,
      screenReaderMode: true,
      linkHandler: { activate: () => undefined }, // A program's links lead nowhere.
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    withNonce(() => terminal.open(element));
    fit.fit();
    screen.current = terminal;
    const encoder = new TextEncoder();
    const connection = new ExecConnection(target, { rows: terminal.rows, columns: terminal.cols }, {
      onStarted: () => setPhase({ name: 'connected' }),
      onBytes: (bytes) => terminal.write(bytes),
      onEnded: (ended) => {
        terminal.options.disableStdin = true;
        setPhase({ name: 'ended', ended });
      },
    });
    terminal.attachCustomKeyEventHandler((event) => {
      if (event.key !== 'Escape' || !event.shiftKey) return true;
      if (event.type === 'keydown') exit.current?.focus();
      return false;
    });
    const typed = terminal.onData((text) => connection.type(encoder.encode(text)));
    const binary = terminal.onBinary((text) => connection.type(Uint8Array.from(text, (letter) => letter.charCodeAt(0) & 255)));
    const resized = terminal.onResize(({ rows, cols }) => connection.resize({ rows, columns: cols }));
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(element);
    terminal.focus();
    return () => {
      observer.disconnect();
      typed.dispose();
      binary.dispose();
      resized.dispose();
      connection.close();
      terminal.dispose();
      screen.current = null;
    };
  }, [target]);

  useEffect(() => {
    if (screen.current) screen.current.options.theme = THEMES[scheme];
  }, [scheme]);

  return (
    <Stack gap="xs">
      <Group gap="sm" mih={36} ref={exit} tabIndex={-1}>
        <Text size="sm" role="status">
          {phase.name === 'connecting' ? t('connecting') : phase.name === 'connected' ? t('connected', { task: nameOf(task) }) : ''}
        </Text>
        {phase.name === 'ended' && (
          <Alert color={phase.ended.code === 1000 ? 'gray' : 'orange'} py={6} role="status">
            {endText(phase.ended, t)}
          </Alert>
        )}
        {phase.name === 'ended' && (
          <Button size="xs" variant="default" onClick={again}>
            {t('again')}
          </Button>
        )}
      </Group>
      <div ref={place} className={classes.terminal} data-keys="own" role="group" aria-label={t('terminal', { task: nameOf(task) })} />
    </Stack>
  );
}

function endText(ended: Ended, t: (key: 'ended' | 'endedUnknown' | 'idle' | 'lost' | 'forbidden' | 'missing' | 'busy', values?: { code: number }) => string): string {
  if (ended.detail) return plain(ended.detail);
  if (ended.code === 1000) return ended.exitCode === null ? t('endedUnknown') : t('ended', { code: ended.exitCode });
  if (ended.code === 4408) return t('idle');
  if (ended.code === 4401 || ended.code === 4403) return t('forbidden');
  if (ended.code === 4404 || ended.code === 4409) return t('missing');
  if (ended.code === 1008) return t('busy');
  return t('lost');
}
