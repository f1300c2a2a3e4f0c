/** A role: its word and a sign, never the colour alone. */

import { useText } from '@/text/language';
import { Mark } from '@/ui/Status';

import { words } from './text';

export const ROLES = ['viewer', 'member', 'manager'] as const;
export type Role = (typeof ROLES)[number];

export function RoleMark({ role }: { role: string | null | undefined }) {
  const t = useText(words);
  if (role === 'manager') return <Mark icon="star" color="violet" label={t('manager')} />;
  if (role === 'member') return <Mark icon="users" color="blue" label={t('member')} />;
  if (role === 'viewer') return <Mark icon="search" color="gray" label={t('viewer')} />;
  return <Mark icon="info" color="gray" label={t('noRoleShort')} />;
}
