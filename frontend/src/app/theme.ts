/** Colours and shapes. Every pair of text and ground is at least 4.5 : 1 in both schemes. */

import { createTheme, DEFAULT_THEME, mergeMantineTheme, type CSSVariablesResolver } from '@mantine/core';

export const theme = mergeMantineTheme(
  DEFAULT_THEME,
  createTheme({
    primaryColor: 'berth',
    primaryShade: { light: 7, dark: 8 },
    defaultRadius: 'md',
    autoContrast: true,
    luminanceThreshold: 0.38,
    respectReducedMotion: true,
    fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif',
    fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Noto Sans Mono", monospace',
    headings: { fontWeight: '650' },
    components: {
      Menu: { defaultProps: { withInitialFocusPlaceholder: false } }, // Its empty place for the focus is no entry, and a menu has nothing else in it.
      SegmentedControl: { styles: { root: { maxWidth: '100%', overflowX: 'auto' } } }, // On a phone the last choices would be out of reach.
    },
    colors: {
      berth: ['#e3fafc', '#c5f0f5', '#96e0ea', '#63cfde', '#3bbfd2', '#1fa9bf', '#1290a6', '#0b7285', '#085f70', '#064a58'],
    },
  }),
);

/** Text on a light ground of its own colour, as marks have it: Mantine's own is too faint for letters of 11 px. */
const ON_LIGHT: Record<string, string> = {
  berth: '#064a58',
  blue: '#14508f',
  cyan: '#0b5563',
  dark: '#2e2e2e',
  grape: '#702283',
  gray: '#3f464d',
  green: '#1d6b2b',
  indigo: '#2f3f9e',
  lime: '#426600',
  orange: '#8a3000',
  pink: '#9c1f52',
  red: '#a51d1d',
  teal: '#06603f',
  violet: '#4b2fa8',
  yellow: '#7a4100',
};

/** Dimmed text as Mantine has it is too faint on grey ground. */
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-dimmed': '#565e66',
    '--mantine-color-error': '#c92a2a',
    '--mantine-color-red-filled': '#c92a2a', // White letters on Mantine's own are 3.8 : 1.
    '--mantine-color-red-filled-hover': '#b02525',
    '--mantine-color-placeholder': '#6c757d',
    '--mantine-color-anchor': '#0b6577',
    ...Object.fromEntries(Object.entries(ON_LIGHT).map(([name, color]) => [`--mantine-color-${name}-light-color`, color])),
  },
  dark: { '--mantine-color-dimmed': '#a9afb5', '--mantine-color-placeholder': '#8d949b', '--mantine-color-anchor': '#63cfde', '--mantine-color-error': '#ff8787' },
});
