/** The pages within their frame. */

import { Button } from '@mantine/core';
import { lazy, type ReactNode } from 'react';
import { Link, Route, Routes } from 'react-router';

import { useSession } from '@/api/session';
import { useText } from '@/text/language';
import { Empty } from '@/ui/Feedback';
import { Page } from '@/ui/Page';

import { PAGE_FILES } from './pageFiles';
import { Shell } from './Shell';
import { shell } from './text';

const PAGES = PAGE_FILES.map(({ path, feature, read }) => ({ path, feature, Page: lazy(read) }));

export function Pages() {
  return (
    <Routes>
      <Route element={<Shell />}>
        {PAGES.map(({ path, feature, Page }) => (
          <Route key={path} path={path} element={<If feature={feature}><Page /></If>} />
        ))}
        <Route path="*" element={<NotFound />} />
      </Route>
    </Routes>
  );
}

/** The page of a feature: where it is switched off it is not there, not even by its address. */
function If({ feature, children }: { feature: string | undefined; children: ReactNode }) {
  const session = useSession();
  return feature === undefined || session.has(feature) ? children : <NotFound />;
}

function NotFound() {
  const t = useText(shell);
  return (
    <Page title={t('notFound')}>
      <Empty icon="search" title={t('notFoundHint')} action={<Button component={Link} to="/">{t('toHome')}</Button>} />
    </Page>
  );
}
