/** Everything about oneself: who one is here, how one signs in, what acts in one's name, and what one is told. */

import { Tabs } from '@mantine/core';
import { lazy, Suspense } from 'react';
import { useSearchParams } from 'react-router';

import { useText } from '@/text/language';
import { Loading } from '@/ui/Feedback';
import { Icon, type IconName } from '@/ui/Icon';
import { Page } from '@/ui/Page';

import { Profile } from './Profile';
import { words } from './text';

const Security = lazy(() => import('./Security'));
const Sessions = lazy(() => import('./Sessions'));
const Tokens = lazy(() => import('./Tokens'));
const Notifications = lazy(() => import('./Notifications'));
const Preferences = lazy(() => import('./Preferences'));

const TABS = [
  { name: 'profile', icon: 'account', part: Profile },
  { name: 'security', icon: 'key', part: Security },
  { name: 'sessions', icon: 'system', part: Sessions },
  { name: 'tokens', icon: 'terminal', part: Tokens },
  { name: 'notifications', icon: 'announcements', part: Notifications },
  { name: 'preferences', icon: 'features', part: Preferences },
] as const satisfies readonly { name: string; icon: IconName; part: React.ComponentType }[];

export default function Account() {
  const t = useText(words);
  const [search, setSearch] = useSearchParams();
  const chosen = TABS.find((tab) => tab.name === search.get('tab')) ?? TABS[0];
  return (
    <Page title={t('title')}>
      <Tabs value={chosen.name} onChange={(value) => setSearch(value && value !== 'profile' ? { tab: value } : {}, { replace: true })} keepMounted={false}>
        <Tabs.List aria-label={t('tabs')} mb="lg">
          {TABS.map((tab) => (
            <Tabs.Tab key={tab.name} value={tab.name} leftSection={<Icon name={tab.icon} size={16} />}>
              {t(tab.name)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {TABS.map(({ name, part: Part }) => (
          <Tabs.Panel key={name} value={name}>
            <Suspense fallback={<Loading />}>
              <Part />
            </Suspense>
          </Tabs.Panel>
        ))}
      </Tabs>
    </Page>
  );
}
