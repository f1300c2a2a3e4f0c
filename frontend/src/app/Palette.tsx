/** Ctrl+K: pages, jobs by name and actions, from the keyboard alone. */

import { ScrollArea, Text, TextInput, UnstyledButton, useMantineColorScheme } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useId, useRef, useState } from 'react';
import { useNavigate } from 'react-router';

import { api, take } from '@/api/client';
import { signOut } from '@/api/session';
import { useLanguage, useText } from '@/text/language';
import { Icon, type IconName } from '@/ui/Icon';
import { notifyProblem } from '@/ui/notify';
import { Status } from '@/ui/Status';
import { Window } from '@/ui/Window';

import type { PageEntry } from './pages';
import classes from './Palette.module.css';
import { shell } from './text';

interface Choice {
  key: string;
  group: 'palettePages' | 'paletteJobs' | 'paletteActions';
  label: string;
  icon: IconName;
  note?: string;
  state?: string;
  run: () => void;
}

const JOBS_SHOWN = 8;

export default function Palette({ pages, onClose, openHelp }: { pages: readonly PageEntry[]; onClose: () => void; openHelp: () => void }) {
  const t = useText(shell);
  const navigate = useNavigate();
  const { language, choose } = useLanguage();
  const { setColorScheme } = useMantineColorScheme();
  const [query, setQuery] = useState('');
  const [sought] = useDebouncedValue(query.trim(), 150);
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const id = useId();
  const jobs = useQuery({
    queryKey: ['jobs', 'palette', sought],
    enabled: sought.length > 1,
    queryFn: ({ signal }) => take(api.GET('/api/v1/jobs', { params: { query: { q: sought, limit: JOBS_SHOWN } }, signal })),
  });

  const go = (path: string) => () => {
    onClose();
    void navigate(path);
  };
  const all: Choice[] = [
    ...pages.map((page): Choice => ({ key: page.path, group: 'palettePages', label: t(page.name), icon: page.icon, note: page.key ? `g ${page.key}` : undefined, run: go(page.path) })),
    { key: '/account', group: 'palettePages', label: t('account'), icon: 'account', run: go('/account') },
    { key: 'light', group: 'paletteActions', label: `${t('theme')}: ${t('light')}`, icon: 'sun', run: () => { setColorScheme('light'); onClose(); } },
    { key: 'dark', group: 'paletteActions', label: `${t('theme')}: ${t('dark')}`, icon: 'moon', run: () => { setColorScheme('dark'); onClose(); } },
    { key: 'language', group: 'paletteActions', label: language === 'en' ? '中文' : 'English', icon: 'language', run: () => { choose(language === 'en' ? 'zh' : 'en'); onClose(); } },
    { key: 'help', group: 'paletteActions', label: t('shortcuts'), icon: 'keyboard', note: '?', run: openHelp },
    { key: 'out', group: 'paletteActions', label: t('signOut'), icon: 'signOut', run: () => { onClose(); void signOut().catch(notifyProblem); } },
  ];
  const needle = query.trim().toLowerCase();
  const found: Choice[] = [
    ...all.filter((choice) => choice.group === 'palettePages' && fits(choice, needle)),
    ...(jobs.data?.items ?? []).map((job): Choice => ({ key: job.id, group: 'paletteJobs', label: job.name, icon: 'jobs', note: job.tenant.slug, state: job.state, run: go(`/jobs/${job.id}`) })),
    ...all.filter((choice) => choice.group === 'paletteActions' && fits(choice, needle)),
  ];
  const index = Math.min(at, Math.max(0, found.length - 1));
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [index, found.length]);

  const press = (event: React.KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      setAt((index + (event.key === 'ArrowDown' ? 1 : found.length - 1)) % Math.max(1, found.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      found[index]?.run();
    }
  };

  return (
    <Window onClose={onClose} withCloseButton={false} size="lg" padding={0} yOffset="10vh" aria-label={t('palette')}>
      <TextInput
        data-autofocus
        size="md"
        variant="unstyled"
        px="md"
        py={4}
        leftSection={<Icon name="search" />}
        placeholder={t('palette')}
        aria-label={t('palette')}
        role="combobox"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={found[index] ? `${id}-${index}` : undefined}
        value={query}
        onChange={(event) => {
          setQuery(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <ScrollArea.Autosize mah="55vh" viewportRef={list} className={classes.list}>
        <div role="listbox" id={id} aria-label={t('palette')}>
          {found.map((choice, position) => (
            <div key={choice.key} role="presentation">
              {choice.group !== found[position - 1]?.group && (
                <Text size="xs" c="dimmed" fw={600} px="md" pt="xs" role="presentation">
                  {t(choice.group)}
                </Text>
              )}
              <UnstyledButton id={`${id}-${position}`} role="option" aria-selected={position === index} tabIndex={-1} className={classes.choice} onClick={choice.run} onMouseMove={() => setAt(position)}>
                <Icon name={choice.icon} size={16} />
                <span className={classes.label}>{choice.label}</span>
                {choice.state && <Status state={choice.state} size="sm" />}
                {choice.note && <kbd className={classes.note}>{choice.note}</kbd>}
              </UnstyledButton>
            </div>
          ))}
          {found.length === 0 && (
            <Text c="dimmed" p="md" size="sm" role="status">
              {t('paletteEmpty', { query })}
            </Text>
          )}
        </div>
      </ScrollArea.Autosize>
    </Window>
  );
}

function fits(choice: Choice, needle: string): boolean {
  return needle === '' || choice.label.toLowerCase().includes(needle) || choice.key.toLowerCase().includes(needle);
}
