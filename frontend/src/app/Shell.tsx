/** The frame around every page of somebody who is signed in. */

import { ActionIcon, Alert, Anchor, AppShell, Box, Burger, Button, Group, NavLink, ScrollArea, Text, UnstyledButton, VisuallyHidden } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { lazy, Suspense, useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { Link, Outlet, useLocation } from 'react-router';

import { live } from '@/api/live';
import { useSession } from '@/api/session';
import berth from '@/berth.svg';
import { useText } from '@/text/language';
import { Loading } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';

import { AccountButton } from './AccountButton';
import { PageBoundary } from './Boundary';
import { useFollowing } from './following';
import { GROUPS, pagesFor } from './pages';
import classes from './Shell.module.css';
import { useShortcuts } from './shortcuts';
import { shell } from './text';
import { usePreferences } from './usePreferences';

const AccountMenu = lazy(() => import('./AccountMenu'));
const Palette = lazy(() => import('./Palette'));
const ShortcutList = lazy(() => import('./ShortcutList'));
const Announcements = lazy(() => import('./Announcements'));

export function Shell() {
  const t = useText(shell);
  const session = useSession();
  const location = useLocation();
  const [isOpen, { toggle, close }] = useDisclosure();
  const [isAccountOpen, setAccountOpen] = useState(false);
  const [overlay, setOverlay] = useState<'palette' | 'help' | null>(null);
  const pages = useMemo(() => pagesFor(session), [session]);
  const openPalette = useCallback(() => setOverlay('palette'), []);
  const openHelp = useCallback(() => setOverlay('help'), []);
  useShortcuts({ pages, openPalette, openHelp });
  useFollowing();
  usePreferences();
  useEffect(close, [location.pathname, close]);

  return (
    <AppShell header={{ height: 56 }} navbar={{ width: 220, breakpoint: 'sm', collapsed: { mobile: !isOpen } }} padding="md">
      <Anchor href="#content" className={classes.skip}>
        {t('skip')}
      </Anchor>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap" gap="sm">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t('menu')} />
            <UnstyledButton component={Link} to="/" className={classes.brand}>
              <img src={berth} width={28} height={28} alt="" />
              <Text fw={700} size="lg" span>
                Berth
              </Text>
            </UnstyledButton>
          </Group>
          <UnstyledButton className={classes.search} aria-haspopup="dialog" onClick={openPalette} visibleFrom="sm">
            <Icon name="search" size={16} />
            <span>{t('palette')}</span>
            <kbd>{t('paletteHint')}</kbd>
          </UnstyledButton>
          <Group gap="xs" wrap="nowrap">
            <ActionIcon variant="subtle" color="gray" size="lg" hiddenFrom="sm" aria-haspopup="dialog" onClick={openPalette} aria-label={t('palette')}>
              <Icon name="search" />
            </ActionIcon>
            <ActionIcon variant="subtle" color="gray" size="lg" visibleFrom="sm" aria-haspopup="dialog" onClick={openHelp} aria-label={t('shortcuts')} title={`${t('shortcuts')} (?)`}>
              <Icon name="keyboard" />
            </ActionIcon>
            {isAccountOpen ? (
              <Suspense fallback={<AccountButton loading />}>
                <AccountMenu />
              </Suspense>
            ) : (
              <AccountButton aria-expanded={false} onClick={() => setAccountOpen(true)} />
            )}
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar aria-label={t('navigation')}>
        <AppShell.Section grow component={ScrollArea} p="xs">
          {GROUPS.map((group) => {
            const entries = pages.filter((page) => page.group === group);
            if (entries.length === 0) return null;
            return (
              <Box key={group} mb="sm">
                <Text size="xs" c="dimmed" fw={600} px="sm" mb={2}>
                  {t(group)}
                </Text>
                {entries.map((page) => (
                  <NavLink
                    key={page.name}
                    component={Link}
                    to={page.path}
                    label={t(page.name)}
                    leftSection={<Icon name={page.icon} />}
                    active={page.path === '/' ? location.pathname === '/' : location.pathname === page.path || location.pathname.startsWith(`${page.path}/`)}
                    aria-current={location.pathname === page.path ? 'page' : undefined}
                    className={classes.entry}
                  />
                ))}
              </Box>
            );
          })}
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Connection />
        {session.has('announcements') && (
          <Suspense fallback={null}>
            <Announcements />
          </Suspense>
        )}
        <PageBoundary key={location.pathname}>
          <Suspense fallback={<Loading lines={6} />}>
            <Outlet />
          </Suspense>
        </PageBoundary>
      </AppShell.Main>
      <Suspense fallback={null}>
        {overlay === 'palette' && <Palette pages={pages} onClose={() => setOverlay(null)} openHelp={openHelp} />}
        {overlay === 'help' && <ShortcutList pages={pages} onClose={() => setOverlay(null)} />}
      </Suspense>
    </AppShell>
  );
}

/** Says when live updates are interrupted; not for a break of a moment. */
function Connection() {
  const t = useText(shell);
  const state = useSyncExternalStore(live.watch, () => live.state);
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    setLong(false);
    if (state !== 'lost') return undefined;
    const timer = setTimeout(() => setLong(true), 1_500);
    return () => clearTimeout(timer);
  }, [state]);
  return (
    <div aria-live="polite">
      {isLong ? (
        <Alert color="yellow" mb="md" py="xs" icon={<Icon name="refresh" />}>
          <Group justify="space-between">
            <Text size="sm">{t('reconnecting')}</Text>
            <Button size="compact-sm" variant="default" onClick={() => live.retry()}>
              {t('reconnectNow')}
            </Button>
          </Group>
        </Alert>
      ) : (
        <VisuallyHidden />
      )}
    </div>
  );
}
