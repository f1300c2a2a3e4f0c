/** Lines over time on a canvas, with gaps as gaps, and the same numbers as a table for who cannot see it. */

import { Box, Button, Stack, Table, Text, useComputedColorScheme } from '@mantine/core';
import { useElementSize } from '@mantine/hooks';
import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { useZone } from '@/text/zone';

export interface Line {
  label: string;
  /** One value for each time; null: nothing is known of it, and the line has a gap. */
  values: readonly (number | null)[];
  color?: string;
  /** Told apart without colour: the second of two, or a bound that was never measured. */
  stroke?: 'solid' | 'dashed' | 'dotted';
}

const COLORS = ['#1c7ed6', '#e8590c', '#2f9e44', '#9c36b5', '#e03131', '#0c8599', '#f08c00', '#6741d9'];
const ROWS_MAX = 200;
const ALONE_SECONDS = 1_800;
const DASHES = { solid: undefined, dashed: [6, 4], dotted: [2, 4] } as const;
/** Steps of an axis of lengths of time, in seconds: people count in minutes and hours, not in thousands. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];

interface ChartProps {
  title: string;
  /** Ascending seconds: since 1970, or since a start that several lines share. */
  times: readonly number[];
  lines: readonly Line[];
  /** Writes a value with its unit. */
  unit: (value: number) => string;
  height?: number;
  maximum?: number;
  /** `elapsed`: the times are lengths since a start, and are written as such. */
  axis?: 'clock' | 'elapsed';
}

export function Chart({ title, times, lines, unit, height = 180, maximum, axis = 'clock' }: ChartProps) {
  const t = useText(common);
  const format = useFormat();
  const zone = useZone();
  const scheme = useComputedColorScheme('light');
  const { ref, width } = useElementSize();
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [isTable, setTable] = useState(false);
  const isElapsed = axis === 'elapsed';
  const shape = lines.map((line) => `${line.label} ${line.stroke ?? ''}`).join('\n');
  const data = [times as number[], ...lines.map((line) => line.values as (number | null)[])] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    if (!place.current || width === 0 || isTable) return undefined;
    const ink = scheme === 'dark' ? '#c1c2c5' : '#495057';
    const grid = { stroke: scheme === 'dark' ? '#373a40' : '#e9ecef', width: 1 };
    const made = new uPlot(
      {
        width,
        height,
        tzDate: (at) => (zone === undefined ? new Date(at * 1000) : uPlot.tzDate(new Date(at * 1000), zone)),
        scales: { x: { time: !isElapsed, range: (_plot, first, last) => (isElapsed ? [0, Math.max(last ?? 0, 1)] : around(first, last)) }, y: { range: (_plot, low, high) => [Math.min(0, low ?? 0), maximum ?? Math.max(high ?? 0, 1e-9) * 1.08] } },
        legend: { live: true },
        cursor: { y: false },
        axes: [
          isElapsed
            ? { stroke: ink, grid, space: 70, incrs: STEPS, values: (_plot, ticks) => ticks.map(format.duration) }
            : { stroke: ink, grid, values: (plot, ticks) => ticks.map((at) => format.tick(at, (plot.scales.x?.max ?? 0) - (plot.scales.x?.min ?? 0))) },
          { stroke: ink, grid, size: 74, values: (_plot, ticks) => ticks.map(unit) },
        ],
        series: [
          isElapsed
            ? { label: t('sinceStart'), value: (_plot, at) => (at === null || at === undefined ? '–' : format.duration(at)) }
            : { label: format.zoneName, value: (_plot, at) => (at ? format.timeWithZone(new Date(at * 1000).toISOString()) : '–') },
          ...lines.map((line, index) => ({
            label: line.label,
            stroke: line.color ?? COLORS[index % COLORS.length] ?? ink,
            width: 1.5,
            dash: line.stroke ? DASHES[line.stroke]?.slice() : index >= COLORS.length ? [6, 4] : undefined,
            spanGaps: false,
            value: (_plot: uPlot, value: number | null) => (value === null || value === undefined ? '–' : unit(value)),
          })),
        ],
      },
      latest.current,
      place.current,
    );
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
    // A new shape makes a new plot; new numbers go into the one that is there.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [width, height, scheme, shape, isTable, maximum, isElapsed, format]);

  useEffect(() => {
    plot.current?.setData(latest.current);
  }, [times, lines]);

  return (
    <Stack gap={4} ref={ref} component="section" aria-label={title}>
      <Text size="sm" fw={600}>
        {title}
      </Text>
      {isTable ? <Twin times={times} lines={lines} unit={unit} isElapsed={isElapsed} /> : <Box ref={place} mih={height} aria-hidden="true" className="berth-chart" />}
      <Box>
        <Button size="compact-xs" variant="subtle" onClick={() => setTable(!isTable)} aria-pressed={isTable}>
          {t('asTable')}
        </Button>
      </Box>
    </Stack>
  );
}

/** One moment alone would be drawn on an axis of years. */
function around(first: number | null, last: number | null): [number, number] {
  if (first === null || last === null) return [0, 1];
  return first === last ? [first - ALONE_SECONDS, last + ALONE_SECONDS] : [first, last];
}

function Twin({ times, lines, unit, isElapsed }: { times: readonly number[]; lines: readonly Line[]; unit: (value: number) => string; isElapsed: boolean }) {
  const t = useText(common);
  const format = useFormat();
  const first = Math.max(0, times.length - ROWS_MAX);
  return (
    <Table.ScrollContainer minWidth={300} mah={260}>
      <Table stickyHeader>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{isElapsed ? t('sinceStart') : format.zoneName}</Table.Th>
            {lines.map((line) => (
              <Table.Th key={line.label}>{line.label}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {times.slice(first).map((at, row) => (
            <Table.Tr key={at}>
              <Table.Td>{isElapsed ? format.duration(at) : format.timeWithZone(new Date(at * 1000).toISOString())}</Table.Td>
              {lines.map((line) => {
                const value = line.values[first + row];
                return <Table.Td key={line.label}>{value === null || value === undefined ? '–' : unit(value)}</Table.Td>;
              })}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
