/** One thing that is being done: busy while it is, its refusal afterwards. */

import { useCallback, useState } from 'react';

import { asProblem, type Problem } from '@/api/problem';

export function useDeed(): { isBusy: boolean; problem: Problem | null; run: (act: () => Promise<unknown>) => Promise<boolean>; forget: () => void } {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const run = useCallback(async (act: () => Promise<unknown>) => {
    setBusy(true);
    setProblem(null);
    try {
      await act();
      return true;
    } catch (error) {
      setProblem(asProblem(error));
      return false;
    } finally {
      setBusy(false);
    }
  }, []);
  return { isBusy, problem, run, forget: useCallback(() => setProblem(null), []) };
}
