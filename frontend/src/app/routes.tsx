/** Address to page. Every page is a file of its own, read when it is first opened. */

import { Button } from '@mantine/core';
import { lazy } from 'react';
import { Link, Outlet, Route, Routes } from 'react-router';

import { useSession } from '@/api/session';
import { useText } from '@/text/language';
import { Empty } from '@/ui/Feedback';

import { Shell } from './Shell';
import { shell } from './text';

const Home = lazy(() => import('@/pages/home'));
const Jobs = lazy(() => import('@/pages/jobs'));
const Job = lazy(() => import('@/pages/job'));
const Submit = lazy(() => import('@/pages/submit'));
const Templates = lazy(() => import('@/pages/templates'));
const Notebook = lazy(() => import('@/pages/notebook'));
const Data = lazy(() => import('@/pages/data'));
const Queues = lazy(() => import('@/pages/queues'));
const Cluster = lazy(() => import('@/pages/cluster'));
const Usage = lazy(() => import('@/pages/usage'));
const Account = lazy(() => import('@/pages/account'));
const Invitation = lazy(() => import('@/pages/invitation'));
const Device = lazy(() => import('@/pages/device'));
const Tenants = lazy(() => import('@/pages/tenants'));
const Quotas = lazy(() => import('@/pages/quotas'));
const Approvals = lazy(() => import('@/pages/approvals'));
const Bookings = lazy(() => import('@/pages/bookings'));
const Prices = lazy(() => import('@/pages/prices'));
const Nodes = lazy(() => import('@/pages/nodes'));
const Clusters = lazy(() => import('@/pages/clusters'));
const Maintenance = lazy(() => import('@/pages/maintenance'));
const Users = lazy(() => import('@/pages/users'));
const AnnouncementsPage = lazy(() => import('@/pages/announcements'));
const Features = lazy(() => import('@/pages/features'));
const Audit = lazy(() => import('@/pages/audit'));

export function Pages() {
  return (
    <Routes>
      <Route element={<Shell />}>
        <Route index element={<Home />} />
        <Route path="jobs" element={<Jobs />} />
        <Route path="jobs/:job/*" element={<Job />} />
        <Route path="submit" element={<Submit />} />
        <Route path="data/*" element={<Data />} />
        <Route path="queues/*" element={<Queues />} />
        <Route path="cluster/*" element={<Cluster />} />
        <Route path="usage/*" element={<Usage />} />
        <Route path="account/*" element={<Account />} />
        <Route path="invitation" element={<Invitation />} />
        <Route path="device" element={<Device />} />
        <Route path="tenants/*" element={<Tenants />} />
        <Route path="quotas" element={<Quotas />} />
        <Route path="approvals" element={<Approvals />} />
        <Route path="nodes/*" element={<Nodes />} />
        <Route path="clusters" element={<Clusters />} />
        <Route path="maintenance" element={<Maintenance />} />
        <Route path="users" element={<Users />} />
        <Route path="features" element={<Features />} />
        <Route path="audit" element={<Audit />} />
        <Route element={<If feature="templates" />}>
          <Route path="templates/*" element={<Templates />} />
        </Route>
        <Route element={<If feature="notebook" />}>
          <Route path="notebook" element={<Notebook />} />
        </Route>
        <Route element={<If feature="bookings" />}>
          <Route path="bookings" element={<Bookings />} />
        </Route>
        <Route element={<If feature="billing" />}>
          <Route path="prices" element={<Prices />} />
        </Route>
        <Route element={<If feature="announcements" />}>
          <Route path="announcements" element={<AnnouncementsPage />} />
        </Route>
        <Route path="*" element={<NotFound />} />
      </Route>
    </Routes>
  );
}

/** The pages of a feature: where it is switched off they are not there, not even by their address. */
function If({ feature }: { feature: string }) {
  return useSession().has(feature) ? <Outlet /> : <NotFound />;
}

function NotFound() {
  const t = useText(shell);
  return (
    <Empty icon="search" title={t('notFound')} action={<Button component={Link} to="/">{t('toHome')}</Button>}>
      {t('notFoundHint')}
    </Empty>
  );
}
