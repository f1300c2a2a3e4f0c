/** One announcement as everybody sees it: a sign, a word and a colour for its level, its text as text. */

import { Alert, CloseButton, Group, Text, type MantineColor } from '@mantine/core';

import type { Schemas } from '@/api/client';
import { useLanguage, useText } from '@/text/language';
import { Icon, type IconName } from '@/ui/Icon';

import { words } from './text';

export type Level = Schemas['AnnouncementOut']['level'];

export const LEVELS: Record<Level, { icon: IconName; color: MantineColor }> = {
  info: { icon: 'info', color: 'blue' },
  warning: { icon: 'alert', color: 'yellow' },
  critical: { icon: 'alert', color: 'red' },
};

export function Banner({ level, text, textZh, tenant, dismiss }: { level: Level; text: string; textZh: string; tenant: string | null; dismiss?: () => void }) {
  const t = useText(words);
  const { language } = useLanguage();
  return (
    <Alert color={LEVELS[level].color} icon={<Icon name={LEVELS[level].icon} />} py="xs" role={level === 'critical' ? 'alert' : 'status'}>
      <Group justify="space-between" wrap="nowrap" align="flex-start" gap="sm">
        <Text size="sm" style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
          <b>
            {t(level)}
            {tenant && ` · ${tenant}`}:
          </b>{' '}
          {language === 'zh' && textZh ? textZh : text}
        </Text>
        {dismiss && <CloseButton size="sm" onClick={dismiss} aria-label={t('dismiss')} title={t('dismiss')} />}
      </Group>
    </Alert>
  );
}
