/** Amounts of resources as people type and read them (GPUs, cores, GiB), and as the API has them (thousandths, bytes). */

export const RESOURCES = ['gpu_millis', 'cpu_millis', 'memory_bytes'] as const;
export type Resource = (typeof RESOURCES)[number];

const SIZE: Record<Resource, number> = { gpu_millis: 1000, cpu_millis: 1000, memory_bytes: 1024 ** 3 };

/** As it stands in an input: `8`, `0.5`; empty for none. */
export function amountText(resource: Resource, value: number | null | undefined): string {
  return value === null || value === undefined ? '' : String(Math.round((value / SIZE[resource]) * 1000) / 1000);
}

/** Null: nothing is typed. NaN: it is no amount. */
export function parseAmount(resource: Resource, text: string): number | null {
  const trimmed = text.trim().replace(',', '.');
  if (trimmed === '') return null;
  return /^\d+(\.\d{1,3})?$/.test(trimmed) ? Math.round(Number(trimmed) * SIZE[resource]) : Number.NaN;
}

export function parseWhole(text: string): number | null {
  const trimmed = text.trim();
  if (trimmed === '') return null;
  return /^\d+$/.test(trimmed) ? Number(trimmed) : Number.NaN;
}
