/** What is told of two runs side by side, and in what they differ. */

import type { Schemas } from '@/api/client';
import type { Job } from '@/pages/job/queries';
import { sayHours, sayMoney } from '@/text/costs';
import type { Format } from '@/text/format';

export interface Side {
  job: Job;
  /** Null: not read yet, or not for this reader to see. */
  timeline: Schemas['TimelineOut'] | null;
  cost: Schemas['JobCostOut'] | null;
  attempts: readonly Schemas['AttemptOut'][] | null;
}

export type FactName =
  | 'end' | 'exitCode' | 'waited' | 'began' | 'ran' | 'attempts' | 'outcomes' | 'cost' | 'gpuHours' | 'coreHours' | 'gpusBusy' | 'gpus' | 'cores' | 'memory' | 'maxRuntime'
  | 'image' | 'framework' | 'priority' | 'pool' | 'queue' | 'tenant' | 'user' | 'tags'; // prettier-ignore

export interface Fact {
  name: FactName;
  a: string;
  b: string;
  isSame: boolean;
  /** By how much B is more or less than A, where that can be counted; empty elsewhere. */
  change: string;
}

export interface Saying {
  format: Format;
  /** How it ended, or how it stands. */
  end: (job: Job) => string;
  outcome: (attempt: Schemas['AttemptOut']) => string;
  noLimit: string;
}

const NOTHING = '–';

export function factsOf(a: Side, b: Side, say: Saying): Fact[] {
  const { format } = say;
  const text = (name: FactName, read: (side: Side) => string | null | undefined): Fact => {
    const [left, right] = [read(a) || NOTHING, read(b) || NOTHING];
    return { name, a: left, b: right, isSame: left === right, change: '' };
  };
  const amount = (name: FactName, read: (side: Side) => number | null, write: (value: number) => string): Fact => {
    const [left, right] = [read(a), read(b)];
    const shown = (value: number | null) => (value === null ? NOTHING : write(value));
    const isSame = shown(left) === shown(right);
    const change = left === null || right === null || isSame ? '' : `${right > left ? '+' : '−'}${write(Math.abs(right - left))}`;
    return { name, a: shown(left), b: shown(right), isSame, change };
  };
  const facts = [
    text('end', ({ job }) => say.end(job)),
    text('exitCode', ({ job }) => (job.exit?.code === null || job.exit?.code === undefined ? '' : String(job.exit.code))),
    amount('waited', (side) => spentIn(side, ['queued']), format.duration),
    amount('began', (side) => spentIn(side, ['admitted', 'starting']), format.duration),
    amount('ran', (side) => spentIn(side, ['running', 'stopping']), format.duration),
    amount('attempts', ({ job }) => job.attempt, (value) => format.number(value, 0)),
    text('outcomes', ({ attempts }) => attempts?.map((attempt) => `${attempt.number}: ${say.outcome(attempt)}`).reverse().join('\n')),
    ...money(a, b, format, amount, text),
    amount('gpuHours', ({ cost }) => cost && cost.gpu_milli_seconds, (value) => sayHours(format, value)),
    amount('coreHours', ({ cost }) => cost && cost.cpu_milli_seconds, (value) => sayHours(format, value)),
    amount('gpusBusy', ({ cost }) => (cost && cost.gpu_measured_milli_seconds > 0 ? cost.gpu_busy_milli_seconds / cost.gpu_measured_milli_seconds : null), (value) => format.percent(value)),
    amount('gpus', ({ job }) => job.resources.gpu_millis, format.milli),
    amount('cores', ({ job }) => job.resources.cpu_millis, format.milli),
    amount('memory', ({ job }) => job.resources.memory_bytes, format.bytes),
    text('maxRuntime', ({ job }) => (job.max_runtime_seconds === null ? say.noLimit : format.duration(job.max_runtime_seconds))),
    text('image', ({ job }) => job.image.name),
    text('framework', ({ job }) => job.framework),
    amount('priority', ({ job }) => job.priority, (value) => format.number(value, 0)),
    text('pool', ({ job }) => job.pool),
    text('queue', ({ job }) => job.queue.name),
    text('tenant', ({ job }) => job.tenant.name),
    text('user', ({ job }) => job.user.name),
    text('tags', ({ job }) => [...job.tags].sort().join(', ')),
  ];
  return facts.filter((fact) => fact.a !== NOTHING || fact.b !== NOTHING);
}

/** Amounts of two currencies are not subtracted from each other. */
function money(
  a: Side,
  b: Side,
  format: Format,
  amount: (name: FactName, read: (side: Side) => number | null, write: (value: number) => string) => Fact,
  text: (name: FactName, read: (side: Side) => string | null) => Fact,
): Fact[] {
  const currency = a.cost?.currency ?? b.cost?.currency ?? '';
  if (a.cost && b.cost && a.cost.currency !== b.cost.currency) return [text('cost', ({ cost }) => cost && sayMoney(format, cost.micros, cost.currency))];
  return [amount('cost', ({ cost }) => cost && cost.micros, (value) => sayMoney(format, value, currency))];
}

function spentIn(side: Side, phases: readonly string[]): number | null {
  if (!side.timeline) return null;
  return side.timeline.phases.filter((phase) => phases.includes(phase.phase)).reduce((sum, phase) => sum + phase.seconds, 0);
}
