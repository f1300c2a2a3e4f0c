/** Filters and choices of a page, which live behind the `?` of its address: a link to it shows the same, and a reload keeps it. */

import { useDebouncedCallback } from '@mantine/hooks';
import { useCallback, useEffect, useState } from 'react';
import { useSearchParams } from 'react-router';

export type Put = (values: Readonly<Record<string, string | null | undefined>>) => void;

/** What stands there, and the way to change some of it; nothing, or an empty text, takes a value out. A `step` is one that Back goes back over. */
export function useAddress(how: 'replace' | 'step' = 'replace'): [URLSearchParams, Put] {
  const [search, setSearch] = useSearchParams();
  const put = useCallback<Put>(
    (values) =>
      setSearch(
        (now) => {
          const next = new URLSearchParams(now);
          for (const [name, value] of Object.entries(values)) {
            if (value) next.set(name, value);
            else next.delete(name);
          }
          return next;
        },
        { replace: how === 'replace' },
      ),
    [setSearch, how],
  );
  return [search, put];
}

const SETTLED_MS = 400;

/** The text of a field that asks the server: put to its place once somebody has stopped typing, not at each key. */
export function useSettling(value: string, put: (text: string) => void): [string, (text: string) => void] {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const later = useDebouncedCallback(put, SETTLED_MS);
  const type = (text: string) => {
    setTyped(text);
    later(text);
  };
  return [typed, type];
}
