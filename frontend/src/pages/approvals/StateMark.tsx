/** What became of a request, as a sign and a word. */

import { useText } from '@/text/language';
import { Mark } from '@/ui/Status';

import type { PriorityRequest } from './requests';
import { words } from './text';

export function StateMark({ state }: { state: PriorityRequest['state'] }) {
  const t = useText(words);
  if (state === 'pending') return <Mark icon="hourglass" color="yellow" label={t('pending')} />;
  if (state === 'approved') return <Mark icon="check" color="teal" label={t('approved')} />;
  if (state === 'denied') return <Mark icon="cross" color="red" label={t('denied')} />;
  return <Mark icon="stop" color="gray" label={t(state)} />;
}
