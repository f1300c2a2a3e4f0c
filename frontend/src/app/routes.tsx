/** The pages within their frame. */

import { Button } from '@mantine/core';
import { Link, Outlet, Route, Routes } from 'react-router';

import { useSession } from '@/api/session';
import { useText } from '@/text/language';
import { Empty } from '@/ui/Feedback';
import { Page } from '@/ui/Page';

import { PAGE_FILES } from './pageFiles';
import { Shell } from './Shell';
import { shell } from './text';

export function Pages() {
  return (
    <Routes>
      <Route element={<Shell />}>
        {PAGE_FILES.map(({ path, feature, file }) => (
          <Route key={path} element={<If feature={feature} />}>
            <Route path={path} element={<file.Shown />} />
          </Route>
        ))}
        <Route path="*" element={<NotFound />} />
      </Route>
    </Routes>
  );
}

/** Where the feature of a page is switched off the page is not there, not even by its address. */
function If({ feature }: { feature?: string }) {
  const { has } = useSession();
  return feature === undefined || has(feature) ? <Outlet /> : <NotFound />;
}

function NotFound() {
  const t = useText(shell);
  return (
    <Page title={t('notFound')}>
      <Empty icon="search" title={t('notFoundHint')} action={<Button component={Link} to="/">{t('toHome')}</Button>} />
    </Page>
  );
}
