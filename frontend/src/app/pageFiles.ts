/** Address to file. Every page is a file of its own, read when it is first opened. */

import { matchPath } from 'react-router';

import { beginJob } from '@/pages/job/queries';
import { beginList } from '@/pages/jobs/queries';
import { beginBoard } from '@/pages/queues/queries';

import { lazyFile, type LazyFile } from './lazyFile';

interface PageAt {
  path: string;
  /** The feature that it is a part of, where it is one. */
  feature?: string;
  file: LazyFile<object>;
  /** Asks for what the page shows first: where rows are waited for, not before its file is there but beside it. */
  begin?: (address: URL) => void;
}

export const PAGE_FILES: readonly PageAt[] = [
  { path: '/', file: lazyFile(() => import('@/pages/home')) },
  { path: '/jobs', file: lazyFile(() => import('@/pages/jobs')), begin: beginList },
  { path: '/jobs/compare', file: lazyFile(() => import('@/pages/compare')) }, // Before the jobs: it reads as the name of one.
  { path: '/jobs/:job/*', file: lazyFile(() => import('@/pages/job')), begin: beginJob },
  { path: '/submit', file: lazyFile(() => import('@/pages/submit')) },
  { path: '/templates/*', feature: 'templates', file: lazyFile(() => import('@/pages/templates')) },
  { path: '/notebook', feature: 'notebook', file: lazyFile(() => import('@/pages/notebook')) },
  { path: '/data/*', file: lazyFile(() => import('@/pages/data')) },
  { path: '/queues/*', file: lazyFile(() => import('@/pages/queues')), begin: beginBoard },
  { path: '/cluster/*', file: lazyFile(() => import('@/pages/cluster')) },
  { path: '/usage/*', file: lazyFile(() => import('@/pages/usage')) },
  { path: '/account/*', file: lazyFile(() => import('@/pages/account')) },
  { path: '/invitation', file: lazyFile(() => import('@/pages/invitation')) },
  { path: '/device', file: lazyFile(() => import('@/pages/device')) },
  { path: '/tenants/*', file: lazyFile(() => import('@/pages/tenants')) },
  { path: '/quotas', file: lazyFile(() => import('@/pages/quotas')) },
  { path: '/approvals', file: lazyFile(() => import('@/pages/approvals')) },
  { path: '/bookings', feature: 'bookings', file: lazyFile(() => import('@/pages/bookings')) },
  { path: '/prices', feature: 'billing', file: lazyFile(() => import('@/pages/prices')) },
  { path: '/nodes/*', file: lazyFile(() => import('@/pages/nodes')) },
  { path: '/clusters', file: lazyFile(() => import('@/pages/clusters')) },
  { path: '/maintenance', file: lazyFile(() => import('@/pages/maintenance')) },
  { path: '/users', file: lazyFile(() => import('@/pages/users')) },
  { path: '/announcements', feature: 'announcements', file: lazyFile(() => import('@/pages/announcements')) },
  { path: '/features', file: lazyFile(() => import('@/pages/features')) },
  { path: '/audit', file: lazyFile(() => import('@/pages/audit')) },
];

export function pageAt(pathname: string) {
  return PAGE_FILES.find(({ path }) => matchPath(path, pathname));
}
