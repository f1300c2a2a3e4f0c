/** Address to file. Every page is a file of its own, read when it is first opened. */

import type { ComponentType } from 'react';
import { matchPath } from 'react-router';

export interface PageFile {
  default: ComponentType;
  /** Ask for what the page shows first, before it is drawn. */
  begin?: (address: URL) => void;
}

interface PageEntry {
  path: string;
  read: () => Promise<PageFile>;
  /** Where this is switched off, there is no such page. */
  feature?: string;
}

export const PAGE_FILES: readonly PageEntry[] = [
  { path: '/', read: () => import('@/pages/home') },
  { path: '/jobs', read: () => import('@/pages/jobs') },
  { path: '/jobs/:job/*', read: () => import('@/pages/job') },
  { path: '/submit', read: () => import('@/pages/submit') },
  { path: '/templates/*', read: () => import('@/pages/templates'), feature: 'templates' },
  { path: '/notebook', read: () => import('@/pages/notebook'), feature: 'notebook' },
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
  { path: '/bookings', read: () => import('@/pages/bookings'), feature: 'bookings' },
  { path: '/prices', read: () => import('@/pages/prices'), feature: 'billing' },
  { path: '/nodes/*', read: () => import('@/pages/nodes') },
  { path: '/clusters', read: () => import('@/pages/clusters') },
  { path: '/maintenance', read: () => import('@/pages/maintenance') },
  { path: '/users', read: () => import('@/pages/users') },
  { path: '/announcements', read: () => import('@/pages/announcements'), feature: 'announcements' },
  { path: '/features', read: () => import('@/pages/features') },
  { path: '/audit', read: () => import('@/pages/audit') },
];

export function pageAt(pathname: string) {
  return PAGE_FILES.find(({ path }) => matchPath(path, pathname));
}
