/** The portal's own few line icons. They decorate: whatever they mean stands beside them in words. */

const PATHS = {
  home: 'M4 11 12 4l8 7M6 10v9h12v-9',
  jobs: 'M4 6h16M4 12h16M4 18h10',
  submit: 'M12 5v14M5 12h14',
  templates: 'M5 4h6v7H5zM13 4h6v4h-6zM13 10h6v10h-6zM5 13h6v7H5z',
  queues: 'M4 6h10M4 12h16M4 18h6M17 4v4M13 16v4',
  cluster: 'M4 5h16v6H4zM4 13h16v6H4zM7 8h.01M7 16h.01',
  usage: 'M4 20V10M10 20V4M16 20v-7M21 20H3',
  data: 'M5 6c0-1.1 3.1-2 7-2s7 .9 7 2-3.1 2-7 2-7-.9-7-2zM5 6v12c0 1.1 3.1 2 7 2s7-.9 7-2V6M5 12c0 1.1 3.1 2 7 2s7-.9 7-2',
  notebook: 'M6 4h12v16H6zM9 4v16M12 8h4M12 12h4',
  tenants: 'M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM3 20c0-3 2.7-5 6-5s6 2 6 5M16 5.5a3 3 0 0 1 0 5M18 15c1.9.7 3 2.600 3 5',
  quotas: 'M12 4v4M6 12v4M18 12v4M6 12h12M12 8v4M4 16h4v4H4zM16 16h4v4h-4zM10 4h4v4h-4z',
  approvals: 'M4 12l5 5L20 6',
  bookings: 'M5 6h14v14H5zM5 10h14M9 4v4M15 4v4',
  prices: 'M12 4v16M16 8c0-1.700-1.800-2.500-4-2.500S8 6.500 8 8.500s2 2.700 4 3.300 4 1.300 4 3.300-1.800 3-4 3-4-.900-4-2.700',
  users: 'M12 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c0-4 3.600-6.500 8-6.500s8 2.500 8 6.500',
  clusters: 'M12 3l8 4.500v9L12 21l-8-4.500v-9zM12 12l8-4.500M12 12v9M12 12L4 7.500',
  audit: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7M9 7h3',
  announcements: 'M4 10v4h3l7 5V5l-7 5zM17 9c1 .8 1.500 1.800 1.500 3s-.5 2.200-1.500 3',
  features: 'M4 8h9M17 8h3M15 6v4M4 16h3M11 16h9M9 14v4',
  maintenance: 'M14 6a4 4 0 0 1 5 5l-9 9-4-4 9-9M6 6l4 4',
  account: 'M12 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c0-4 3.600-6.500 8-6.500s8 2.500 8 6.500',
  events: 'M12 4v8l5 3M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z',
  search: 'M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM15.500 15.500 20 20',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2',
  moon: 'M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z',
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
  language: 'M4 6h9M8.500 4v2M11 6c-1 4-4 7-7 8M6 9c1 2.500 3.500 4.500 6 5M12 20l4-9 4 9M13.500 17h5',
  signOut: 'M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9',
  check: 'M5 12.500l4.500 4.500L19 7.500',
  cross: 'M6 6l12 12M18 6 6 18',
  stop: 'M7 7h10v10H7z',
  play: 'M8 5l11 7-11 7z',
  pause: 'M8 6v12M16 6v12',
  clock: 'M12 7v5l3 2M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16z',
  hourglass: 'M7 4h10M7 20h10M8 4c0 5 8 6 8 12v4H8v-4c0-6 8-7 8-12',
  alert: 'M12 4 2.500 20h19zM12 10v4M12 17h.01',
  info: 'M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16zM12 11v5M12 8h.01',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  refresh: 'M20 12a8 8 0 1 1-2.500-5.800M20 4v5h-5',
  edit: 'M5 19h3L19 8l-3-3L5 16z',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  link: 'M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1',
  down: 'M6 9l6 6 6-6',
  right: 'M9 6l6 6-6 6',
  left: 'M15 6l-6 6 6 6',
  terminal: 'M4 5h16v14H4zM7 9l3 3-3 3M12 15h5',
  tag: 'M4 4h8l8 8-8 8-8-8zM8 8h.01',
  star: 'M12 4l2.500 5.200 5.500.800-4 4 1 5.600-5-2.700-5 2.700 1-5.600-4-4 5.500-.800z',
  key: 'M14 10a4 4 0 1 0-3.500 4L12 15.500h2v2h2v2h4v-3l-5.500-5.500',
  keyboard: 'M3 7h18v10H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8',
  columns: 'M4 5h16v14H4zM9.500 5v14M14.500 5v14',
  filter: 'M4 5h16l-6 8v6l-4-2v-4z',
  menu: 'M4 7h16M4 12h16M4 17h16',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth={1.8} strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
