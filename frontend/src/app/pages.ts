/** Every page of the navigation: its address, who is offered it, and its key after `g`. The router and the palette read it too. */

import type { SessionState } from '@/api/session';
import type { IconName } from '@/ui/Icon';

type PageName =
  | 'home' | 'jobs' | 'submit' | 'templates' | 'notebook' | 'queues' | 'cluster' | 'usage' | 'data' | 'tenants' | 'quotas' | 'approvals'
  | 'bookings' | 'prices' | 'users' | 'nodes' | 'clusters' | 'audit' | 'announcements' | 'features' | 'maintenance';
export type GroupName = 'groupWork' | 'groupLook' | 'groupManage' | 'groupOperate';

export interface PageEntry {
  name: PageName;
  path: string;
  icon: IconName;
  group: GroupName;
  /** The second key of `g` and it. */
  key?: string;
  /** What a role may not do is not offered. */
  isFor?: (session: SessionState) => boolean;
}

const manager = (session: SessionState) => session.isOperator || session.may('manager');
const operator = (session: SessionState) => session.isOperator;
const member = (session: SessionState) => session.may('member');

const PAGES: readonly PageEntry[] = [
  { name: 'home', path: '/', icon: 'home', group: 'groupWork', key: 'h' },
  { name: 'jobs', path: '/jobs', icon: 'jobs', group: 'groupWork', key: 'j' },
  { name: 'submit', path: '/submit', icon: 'submit', group: 'groupWork', key: 's', isFor: member },
  { name: 'templates', path: '/templates', icon: 'templates', group: 'groupWork', key: 't', isFor: (session) => session.has('templates') },
  { name: 'notebook', path: '/notebook', icon: 'notebook', group: 'groupWork', key: 'n', isFor: (session) => member(session) && session.has('notebook') },
  { name: 'data', path: '/data', icon: 'data', group: 'groupWork', key: 'd' },
  { name: 'queues', path: '/queues', icon: 'queues', group: 'groupLook', key: 'q' },
  { name: 'cluster', path: '/cluster', icon: 'cluster', group: 'groupLook', key: 'c' },
  { name: 'usage', path: '/usage', icon: 'usage', group: 'groupLook', key: 'u' },
  { name: 'tenants', path: '/tenants', icon: 'tenants', group: 'groupManage' },
  { name: 'quotas', path: '/quotas', icon: 'quotas', group: 'groupManage', isFor: manager },
  { name: 'approvals', path: '/approvals', icon: 'approvals', group: 'groupManage', key: 'a' },
  { name: 'bookings', path: '/bookings', icon: 'bookings', group: 'groupManage', key: 'b', isFor: (session) => session.has('bookings') },
  { name: 'prices', path: '/prices', icon: 'prices', group: 'groupManage', isFor: (session) => session.has('billing') },
  { name: 'nodes', path: '/nodes', icon: 'cluster', group: 'groupOperate', isFor: operator },
  { name: 'clusters', path: '/clusters', icon: 'clusters', group: 'groupOperate', isFor: operator },
  { name: 'maintenance', path: '/maintenance', icon: 'maintenance', group: 'groupOperate', isFor: operator },
  { name: 'users', path: '/users', icon: 'users', group: 'groupOperate', isFor: operator },
  { name: 'announcements', path: '/announcements', icon: 'announcements', group: 'groupManage', isFor: (session) => manager(session) && session.has('announcements') },
  { name: 'features', path: '/features', icon: 'features', group: 'groupOperate', isFor: operator },
  { name: 'audit', path: '/audit', icon: 'audit', group: 'groupManage', isFor: manager },
];

export const GROUPS: readonly GroupName[] = ['groupWork', 'groupLook', 'groupManage', 'groupOperate'];

export function pagesFor(session: SessionState): readonly PageEntry[] {
  return PAGES.filter((page) => page.isFor?.(session) ?? true);
}
