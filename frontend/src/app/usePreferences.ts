/** What the person prefers: the time zone everywhere; language and theme in a browser that knows nothing of them yet. */

import { useMantineColorScheme } from '@mantine/core';
import { useEffect } from 'react';

import { preferencesQuery } from '@/api/preferences';
import { queries } from '@/api/query';
import { useLanguage } from '@/text/language';
import { chooseZone } from '@/text/zone';

const CHOSEN = ['berth-language', 'mantine-color-scheme-value'] as const;

export function usePreferences(): void {
  const { choose } = useLanguage();
  const { setColorScheme } = useMantineColorScheme();
  useEffect(() => {
    queries
      .fetchQuery(preferencesQuery)
      .then((kept) => {
        chooseZone(kept.time_zone);
        if (CHOSEN.some((name) => localStorage.getItem(name) !== null)) return; // Also what was chosen while the answer was on its way.
        if (kept.language !== '') choose(kept.language);
        if (kept.theme !== 'system') setColorScheme(kept.theme);
      })
      .catch(() => undefined); // The browser's own will do.
    // Once, as the person comes in.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
}
