/** The phases of a job, one group for each try: the wait for it and the try itself. */

import type { Schemas } from '@/api/client';

export type Phase = Schemas['PhaseOut'];

export interface Try {
  /** Null while it waits for the next start. */
  attempt: number | null;
  phases: Phase[];
  seconds: number;
}

export function triesOf(phases: readonly Phase[]): Try[] {
  const tries: Try[] = [];
  for (const phase of phases) {
    let last = tries.at(-1);
    const isNew = !last || (phase.attempt === null && last.attempt !== null) || (phase.attempt !== null && last.attempt !== null && phase.attempt !== last.attempt);
    if (!last || isNew) {
      last = { attempt: null, phases: [], seconds: 0 };
      tries.push(last);
    }
    last.phases.push(phase);
    last.attempt ??= phase.attempt;
    last.seconds += phase.seconds;
  }
  return tries;
}
