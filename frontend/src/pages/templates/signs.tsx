/** The signs that a template may carry. One that is not known here gets the sign of all templates. */

import { ThemeIcon, type MantineColor } from '@mantine/core';

import { Icon, type IconName } from '@/ui/Icon';

export const SIGNS = ['terminal', 'flame', 'network', 'grid', 'notebook', 'layers', 'share', 'chart', 'data', 'star'] as const;
export type Sign = (typeof SIGNS)[number];

const LOOK: Record<Sign, { icon: IconName; color: MantineColor }> = {
  terminal: { icon: 'terminal', color: 'berth' },
  flame: { icon: 'star', color: 'orange' },
  network: { icon: 'quotas', color: 'indigo' },
  grid: { icon: 'templates', color: 'grape' },
  notebook: { icon: 'notebook', color: 'teal' },
  layers: { icon: 'clusters', color: 'blue' },
  share: { icon: 'link', color: 'violet' },
  chart: { icon: 'usage', color: 'green' },
  data: { icon: 'data', color: 'cyan' },
  star: { icon: 'star', color: 'yellow' },
};

export function isSign(name: string): name is Sign {
  return (SIGNS as readonly string[]).includes(name);
}

export function TemplateSign({ name, size = 40 }: { name: string; size?: number }) {
  const look = isSign(name) ? LOOK[name] : { icon: 'templates' as const, color: 'gray' };
  return (
    <ThemeIcon variant="light" color={look.color} size={size} radius="md" aria-hidden="true">
      <Icon name={look.icon} size={size * 0.55} />
    </ThemeIcon>
  );
}
