/** Money by month, with the same numbers as a table: months are counted, so the time axis of the usual chart does not fit. */

import { Box, Stack, Table, Text, useComputedColorScheme } from '@mantine/core';
import { useElementSize } from '@mantine/hooks';
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

const COLORS = ['#0b7285', '#e8590c'];
const EVERY = 12;

export default function Curve({ title, months, lines, sayMonth, sayMoney }: { title: string; months: readonly number[]; lines: readonly { label: string; values: readonly number[] }[]; sayMonth: (month: number) => string; sayMoney: (micros: number) => string }) {
  const scheme = useComputedColorScheme('light');
  const { ref, width } = useElementSize();
  const place = useRef<HTMLDivElement>(null);
  const say = useRef({ sayMonth, sayMoney });
  say.current = { sayMonth, sayMoney };
  const shape = JSON.stringify([months, lines]);
  useEffect(() => {
    if (!place.current || width === 0) return undefined;
    const ink = scheme === 'dark' ? '#c1c2c5' : '#495057';
    const grid = { stroke: scheme === 'dark' ? '#373a40' : '#e9ecef', width: 1 };
    const [x, read] = JSON.parse(shape) as [number[], { label: string; values: number[] }[]];
    const plot = new uPlot(
      {
        width,
        height: 260,
        scales: { x: { time: false } },
        axes: [
          { stroke: ink, grid },
          { stroke: ink, grid, size: 110, values: (_plot, ticks) => ticks.map((tick) => say.current.sayMoney(tick)) },
        ],
        series: [
          { label: '#', value: (_plot, at) => (at === null || at === undefined ? '–' : say.current.sayMonth(at)) },
          ...read.map((line, index) => ({ label: line.label, stroke: COLORS[index], width: 2, dash: index === 0 ? undefined : [6, 4], value: (_plot: uPlot, value: number | null) => (value === null || value === undefined ? '–' : say.current.sayMoney(value)) })),
        ],
      },
      [x, ...read.map((line) => line.values)],
      place.current,
    );
    return () => plot.destroy();
  }, [width, scheme, shape]);
  return (
    <Stack gap={4} ref={ref} component="section" aria-label={title}>
      <Text size="sm" fw={600}>
        {title}
      </Text>
      <Box ref={place} mih={260} aria-hidden="true" className="berth-chart" />
      <Table.ScrollContainer minWidth={360}>
        <Table>
          <Table.Tbody>
            {months.flatMap((month, index) =>
              month % EVERY === 0
                ? [
                    <Table.Tr key={month}>
                      <Table.Td>{sayMonth(month)}</Table.Td>
                      {lines.map((line) => (
                        <Table.Td key={line.label}>
                          {line.label}: {sayMoney(line.values[index] ?? 0)}
                        </Table.Td>
                      ))}
                    </Table.Tr>,
                  ]
                : [],
            )}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}
