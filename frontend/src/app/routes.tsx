/** The pages within their frame. */

import { Button } from '@mantine/core';
import { lazy } from 'react';
import { Link, Route, Routes } from 'react-router';

import { useText } from '@/text/language';
import { Empty } from '@/ui/Feedback';
import { Page } from '@/ui/Page';

import { PAGE_FILES } from './pageFiles';
import { Shell } from './Shell';
import { shell } from './text';

const PAGES = PAGE_FILES.map(({ path, read }) => ({ path, Page: lazy(read) }));

export function Pages() {
  return (
    <Routes>
      <Route element={<Shell />}>
        {PAGES.map(({ path, Page }) => (
          <Route key={path} path={path} element={<Page />} />
        ))}
        <Route path="*" element={<NotFound />} />
      </Route>
    </Routes>
  );
}

function NotFound() {
  const t = useText(shell);
  return (
    <Page title={t('notFound')}>
      <Empty icon="search" title={t('notFoundHint')} action={<Button component={Link} to="/">{t('toHome')}</Button>} />
    </Page>
  );
}
