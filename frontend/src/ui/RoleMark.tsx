/** A role: its word and a sign, never the colour alone. */

import { common } from '@/text/common';
import { useText } from '@/text/language';

import { Mark } from './Status';

export function RoleMark({ role, size }: { role: string | null | undefined; size?: 'sm' | 'md' }) {
  const t = useText(common);
  if (role === 'manager') return <Mark size={size} icon="star" color="violet" label={t('manager')} />;
  if (role === 'member') return <Mark size={size} icon="users" color="blue" label={t('member')} />;
  if (role === 'viewer') return <Mark size={size} icon="search" color="gray" label={t('viewer')} />;
  return <Mark size={size} icon="info" color="gray" label={t('none')} />;
}
