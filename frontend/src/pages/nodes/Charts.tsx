/** What was measured on a node, gaps as gaps. */

import { SimpleGrid, Text } from '@mantine/core';

import { chartTimes, type Series } from '@/api/fleet';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Chart } from '@/ui/Chart';

import { words } from './text';

const GPU_METRICS = ['gpu_utilization_ratio', 'gpu_memory_bytes', 'gpu_power_watts', 'gpu_temperature_celsius'] as const;

export default function Charts({ series }: { series: readonly Series[] }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const one = (metric: string) => series.find((found) => found.metric === metric);
  const cpu = one('cpu_millis');
  if (!cpu && series.length === 0) return <Text c="dimmed">{t('noMetrics')}</Text>;
  const pair = (names: [string, string][]) => names.flatMap(([metric, label]) => (one(metric) ? [{ label, values: one(metric)?.values ?? [] }] : []));
  const space = pair([['disk_used_bytes', t('usedSpace')], ['disk_free_bytes', t('freeSpace')]]);
  const disk = pair([['disk_read_bytes_per_second', t('read')], ['disk_write_bytes_per_second', t('write')]]);
  const network = pair([['network_receive_bytes_per_second', t('receive')], ['network_transmit_bytes_per_second', t('transmit')]]);
  const memory = one('memory_bytes');
  const times = (metric: string) => {
    const found = one(metric);
    return found ? chartTimes(found) : [];
  };
  return (
    <SimpleGrid cols={{ base: 1, md: 2, xl: 3 }}>
      {cpu && <Chart title={t('cpu_millis')} times={chartTimes(cpu)} lines={[{ label: t('cpu_millis'), values: cpu.values }]} unit={format.milli} />}
      {memory && <Chart title={t('memory_bytes')} times={chartTimes(memory)} lines={[{ label: t('memory_bytes'), values: memory.values }]} unit={format.bytes} />}
      {GPU_METRICS.map((metric) => {
        const found = series.filter((candidate) => candidate.metric === metric);
        const [first] = found;
        if (!first) return null;
        const unit = metric === 'gpu_utilization_ratio' ? format.percent : metric === 'gpu_memory_bytes' ? format.bytes : (value: number) => `${format.number(value)} ${metric === 'gpu_power_watts' ? 'W' : '°C'}`;
        return <Chart key={metric} title={`${t('gpu', { metric: t(metric) })}${found.some((line) => line.simulated) ? ` · ${c('simulated')}` : ''}`} times={chartTimes(first)} unit={(value) => unit(value)} lines={found.map((line) => ({ label: line.subject.split(/[:/]/).at(-1) ?? line.subject, values: line.values }))} />;
      })}
      {disk.length > 0 && <Chart title={t('disk')} times={times('disk_read_bytes_per_second')} lines={disk} unit={format.bytes} />}
      {network.length > 0 && <Chart title={t('network')} times={times('network_receive_bytes_per_second')} lines={network} unit={format.bytes} />}
      {space.length > 0 && <Chart title={t('disk_space')} times={times('disk_used_bytes')} lines={space} unit={format.bytes} />}
    </SimpleGrid>
  );
}
