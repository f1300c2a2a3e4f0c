/** What is measured of tasks, and how its values are written. */

import type { Format } from '@/text/format';

export const METRICS = [
  'cpu_millis',
  'memory_bytes',
  'gpu_utilization_ratio',
  'gpu_memory_bytes',
  'gpu_power_watts',
  'gpu_temperature_celsius',
  'disk_read_bytes_per_second',
  'disk_write_bytes_per_second',
  'processes',
] as const;
export type MetricName = (typeof METRICS)[number];

export function isMetric(name: string | null): name is MetricName {
  return (METRICS as readonly (string | null)[]).includes(name);
}

export function unitOf(metric: MetricName, format: Format, t: (key: 'perSecond', values: { size: string }) => string): (value: number) => string {
  switch (metric) {
    case 'cpu_millis':
      return (value) => format.number(value / 1000, value < 10 ? 5 : value < 1000 ? 3 : 2);
    case 'memory_bytes':
    case 'gpu_memory_bytes':
      return format.bytes;
    case 'gpu_utilization_ratio':
      return (value) => format.percent(value);
    case 'gpu_power_watts':
      return (value) => `${format.number(value, 0)} W`;
    case 'gpu_temperature_celsius':
      return (value) => `${format.number(value, 0)} °C`;
    case 'disk_read_bytes_per_second':
    case 'disk_write_bytes_per_second':
      return (value) => t('perSecond', { size: format.bytes(value) });
    case 'processes':
      return (value) => format.number(value, 0);
  }
}
