/**
 * The list of a Select is there from the time its field is first gone to, not from the time the page is drawn: closed, it costs a visit
 * as much as twenty rows of a table, since its place is looked for and all styles are worked out for that. It is there before a key can
 * open it, so that arrows begin at what is chosen.
 */

import { useCallback, useMemo, useState } from 'react';

export function useLateList(): { comboboxProps: { keepMounted: boolean }; onFocus: () => void } {
  const [isNear, setNear] = useState(false);
  const comboboxProps = useMemo(() => ({ keepMounted: isNear }), [isNear]);
  return { comboboxProps, onFocus: useCallback(() => setNear(true), []) };
}
