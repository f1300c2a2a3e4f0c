/** A node's condition as a mark. */

import type { FleetNode } from '@/api/fleet';
import { useText } from '@/text/language';
import { Mark } from '@/ui/Status';

import { words } from './text';

export function NodeState({ node, isDraining = false, size = 'sm' }: { node: FleetNode; isDraining?: boolean; size?: 'sm' | 'md' }) {
  const t = useText(words);
  if (!node.ready) return <Mark icon="alert" color="red" label={t('notReady')} size={size} />;
  if (!node.cordoned) return <Mark icon="check" color="teal" label={t('ready')} size={size} />;
  if (isDraining) return <Mark icon="hourglass" color="orange" label={t('draining')} size={size} />;
  const isEmpty = node.allocated.cpu_millis === 0 && node.allocated.gpu_millis === 0;
  return <Mark icon={isEmpty ? 'stop' : 'pause'} color={isEmpty ? 'gray' : 'orange'} label={t(isEmpty ? 'drained' : 'cordoned')} size={size} />;
}
