/** In a browser that knows nothing of this person yet: the language and theme that they chose elsewhere. */

import { useMantineColorScheme } from '@mantine/core';
import { useEffect } from 'react';

import { api, take } from '@/api/client';
import { useLanguage } from '@/text/language';

const CHOSEN = ['berth-language', 'mantine-color-scheme-value'] as const;

export function usePreferences(): void {
  const { choose } = useLanguage();
  const { setColorScheme } = useMantineColorScheme();
  useEffect(() => {
    if (CHOSEN.some((name) => localStorage.getItem(name) !== null)) return;
    take(api.GET('/api/v1/preferences'))
      .then((kept) => {
        if (kept.language !== '') choose(kept.language);
        if (kept.theme !== 'system') setColorScheme(kept.theme);
      })
      .catch(() => undefined); // The browser's own will do.
    // Once, as the person comes in.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
}
