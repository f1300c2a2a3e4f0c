/** Amounts of the ledger as people read them: milli-unit-seconds as hours, millionths as money. */

import type { Format } from './format';

const MICROS = 1_000_000;
const MILLI_SECONDS_PER_HOUR = 3_600_000;
const GIB_SECONDS_PER_HOUR = 1024 ** 3 * 3600;
const WARN_PERCENT = 80;
const PRICE_DIGITS = 6; // Prices are exact; amounts are rounded.

export function hours(milliSeconds: number): number {
  return milliSeconds / MILLI_SECONDS_PER_HOUR;
}

export function gibHours(byteSeconds: number): number {
  return byteSeconds / GIB_SECONDS_PER_HOUR;
}

export function sayHours(format: Format, milliSeconds: number): string {
  const value = hours(milliSeconds);
  return format.number(value, value !== 0 && Math.abs(value) < 10 ? 3 : 1);
}

export function sayMoney(format: Format, micros: number, currency: string): string {
  const value = micros / MICROS;
  return `${format.number(value, value !== 0 && Math.abs(value) < 1 ? 4 : 2)} ${currency}`;
}

export function sayPrice(format: Format, micros: number, currency: string): string {
  return `${format.number(micros / MICROS, PRICE_DIGITS)} ${currency}`;
}

interface Budgeted {
  kind: 'money' | 'gpu_time' | 'node_time';
  currency: string;
}

/** What one of a budget is in the API: a currency's millionth, or a thousandth for a second. */
export const BUDGET_UNITS: Record<Budgeted['kind'], number> = { money: MICROS, gpu_time: MILLI_SECONDS_PER_HOUR, node_time: MILLI_SECONDS_PER_HOUR };

export function budgetColor(percent: number): string {
  return percent >= 100 ? 'red' : percent >= WARN_PERCENT ? 'orange' : 'berth';
}

/** `t` is of the words that all pages share. */
export function sayBudget(format: Format, t: (key: 'gpuHours' | 'nodeHours', values: { hours: string }) => string, budget: Budgeted, value: number): string {
  if (budget.kind === 'money') return sayMoney(format, value, budget.currency);
  return t(budget.kind === 'gpu_time' ? 'gpuHours' : 'nodeHours', { hours: sayHours(format, value) });
}
