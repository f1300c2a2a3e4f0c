/** Address to file. Every page is a file of its own, read when it is first opened. */

import type { ComponentType } from 'react';
import { matchPath } from 'react-router';

export interface PageFile {
  default: ComponentType;
  /** Ask for what the page shows first, before it is drawn. */
  begin?: (address: URL) => void;
}

interface PageAt {
  path: string;
  /** The feature that it is a part of, where it is one. */
  feature?: string;
  read: () => Promise<PageFile>;
}

export const PAGE_FILES: readonly PageAt[] = [
  { path: '/', read: () => import('@/pages/home') },
  { path: '/jobs', read: () => import('@/pages/jobs') },
  { path: '/jobs/:job/*', read: () => import('@/pages/job') },
  { path: '/submit', read: () => import('@/pages/submit') },
  { path: '/templates/*', feature: 'templates', read: () => import('@/pages/templates') },
  { path: '/notebook', feature: 'notebook', read: () => import('@/pages/notebook') },
  { path: '/data/*', read: () => import('@/pages/data') },
  { path: '/queues/*', read: () => import('@/pages/queues') },
  { path: '/cluster/*', read: () => import('@/pages/cluster') },
  { path: '/usage/*', read: () => import('@/pages/usage') },
  { path: '/account/*', read: () => import('@/pages/account') },
  { path: '/invitation', read: () => import('@/pages/invitation') },
  { path: '/device', read: () => import('@/pages/device') },
  { path: '/tenants/*', read: () => import('@/pages/tenants') },
  { path: '/quotas', read: () => import('@/pages/quotas') },
  { path: '/approvals', read: () => import('@/pages/approvals') },
  { path: '/bookings', feature: 'bookings', read: () => import('@/pages/bookings') },
  { path: '/prices', feature: 'billing', read: () => import('@/pages/prices') },
  { path: '/nodes/*', read: () => import('@/pages/nodes') },
  { path: '/clusters', read: () => import('@/pages/clusters') },
  { path: '/maintenance', read: () => import('@/pages/maintenance') },
  { path: '/users', read: () => import('@/pages/users') },
  { path: '/announcements', feature: 'announcements', read: () => import('@/pages/announcements') },
  { path: '/features', read: () => import('@/pages/features') },
  { path: '/audit', read: () => import('@/pages/audit') },
];

export function pageAt(pathname: string) {
  return PAGE_FILES.find(({ path }) => matchPath(path, pathname));
}
