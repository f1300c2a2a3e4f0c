/** How one wants the portal, kept with the account and put to use at once. */

import { Select, Stack, Text, useMantineColorScheme } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { prefer, preferencesQuery, type PreferenceChange } from '@/api/preferences';
import { useSession } from '@/api/session';
import { useFormat } from '@/text/format';
import { firstLanguage, LANGUAGES, useLanguage, useText } from '@/text/language';
import { Answer, ProblemView } from '@/ui/Feedback';
import { chooseZone, zones } from '@/text/zone';
import { notify } from '@/ui/notify';

import { useDeed } from './deed';
import { words } from './text';


export default function Preferences() {
  const t = useText(words);
  const format = useFormat();
  const { who } = useSession();
  const { choose } = useLanguage();
  const { setColorScheme } = useMantineColorScheme();
  const { isBusy, problem, run } = useDeed();
  const preferences = useQuery(preferencesQuery);
  const change = async (body: PreferenceChange) => {
    const done = await run(() => prefer(body));
    if (!done) return;
    if (body.language !== undefined) choose(firstLanguage(body.language, navigator.languages));
    if (body.time_zone !== undefined) chooseZone(body.time_zone);
    if (body.theme !== undefined) setColorScheme(body.theme === 'system' ? 'auto' : body.theme);
    notify(t('saved'));
  };
  return (
    <Stack maw={480}>
      <Text c="dimmed" size="sm">
        {t('preferencesText')}
      </Text>
      {problem && <ProblemView error={problem} />}
      <Answer query={preferences}>
        {(kept) => (
          <Stack>
            <Select label={t('language')} allowDeselect={false} disabled={isBusy} data={[{ value: '', label: t('asBrowser') }, ...LANGUAGES]} value={kept.language} onChange={(value) => void change({ language: value === 'en' || value === 'zh' ? value : '' })} />
            <Select
              label={t('theme')}
              allowDeselect={false}
              disabled={isBusy}
              data={(['system', 'light', 'dark'] as const).map((value) => ({ value, label: t(value) }))}
              value={kept.theme}
              onChange={(value) => void change({ theme: value === 'light' || value === 'dark' ? value : 'system' })}
            />
            {who.tenants.length > 0 && (
              <Select
                label={t('defaultTenant')}
                placeholder={t('noDefault')}
                clearable
                searchable
                disabled={isBusy}
                data={who.tenants.map((tenant) => ({ value: tenant.slug, label: tenant.name }))}
                value={kept.default_tenant?.slug ?? null}
                onChange={(value) => void change({ default_tenant: value })}
              />
            )}
            <Select
              label={t('timeZone')}
              description={t('zoneNow', { zone: format.zoneToday })}
              searchable
              allowDeselect={false}
              disabled={isBusy}
              limit={100}
              data={[{ value: '', label: t('asBrowser') }, ...[...new Set([...zones(), ...(kept.time_zone ? [kept.time_zone] : [])])].map((zone) => ({ value: zone, label: zone.replaceAll('_', ' ') }))]}
              value={kept.time_zone}
              onChange={(value) => void change({ time_zone: value ?? '' })}
            />
          </Stack>
        )}
      </Answer>
    </Stack>
  );
}
