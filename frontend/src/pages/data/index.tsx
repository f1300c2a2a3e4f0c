/** Volumes with their files, and images. */

import { Tabs } from '@mantine/core';
import { lazy, Suspense } from 'react';
import { Route, Routes, useSearchParams } from 'react-router';

import { useText } from '@/text/language';
import { Loading } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';

import { words } from './text';
import { Transfers } from './Transfers';
import { Volumes } from './Volumes';

const Browse = lazy(() => import('./Browse'));
const Images = lazy(() => import('./Images'));

export default function Data() {
  return (
    <Suspense fallback={<Loading />}>
      <Routes>
        <Route index element={<Lists />} />
        <Route path=":volume/*" element={<Browse />} />
      </Routes>
      <Transfers />
    </Suspense>
  );
}

function Lists() {
  const t = useText(words);
  const [search, setSearch] = useSearchParams();
  const tab = search.get('tab') === 'images' ? 'images' : 'volumes';
  return (
    <Page title={t('title')} wide>
      <Tabs value={tab} onChange={(value) => setSearch(value === 'images' ? { tab: 'images' } : {}, { replace: true })} keepMounted={false}>
        <Tabs.List aria-label={t('tabs')} mb="md">
          <Tabs.Tab value="volumes" leftSection={<Icon name="data" size={16} />}>
            {t('volumes')}
          </Tabs.Tab>
          <Tabs.Tab value="images" leftSection={<Icon name="clusters" size={16} />}>
            {t('images')}
          </Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="volumes">
          <Volumes />
        </Tabs.Panel>
        <Tabs.Panel value="images">
          <Suspense fallback={<Loading />}>
            <Images />
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
