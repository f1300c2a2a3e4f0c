/** Why something is stopped, in the words of whoever stops it: asked wherever a job can be stopped, required nowhere. */

import { TextInput } from '@mantine/core';

import { common } from '@/text/common';
import { useText } from '@/text/language';

const LENGTH_MAX = 200; // As the API takes it.

export function StopReason({ value, change }: { value: string; change: (reason: string) => void }) {
  const t = useText(common);
  return <TextInput label={t('stopReason')} description={t('stopReasonHint')} maxLength={LENGTH_MAX} value={value} onChange={(event) => change(event.currentTarget.value)} />;
}
