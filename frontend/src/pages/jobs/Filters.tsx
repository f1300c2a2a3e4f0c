/** The filters above the list. All of them live in the URL; what is set stands below as something to take away. */

import { Badge, Button, Chip, CloseButton, Group, NumberFormatter, Popover, Select, Stack, Switch, TagsInput, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useState } from 'react';

import { useQueueNames } from '@/api/fleet';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Icon } from '@/ui/Icon';
import { useLateList } from '@/ui/lateList';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { isJobState, JOB_STATES, type JobState } from '@/ui/Status';

import { KINDS, SORTS, SPANS, timeText, type Filters, type Kind, type Sort } from './filters';
import classes from './Jobs.module.css';
import { words } from './text';

export type Change = (change: Partial<Filters>) => void;
const ALWAYS: readonly JobState[] = ['queued', 'running', 'succeeded', 'failed', 'stopped'];
const SEARCH_MS = 250;

export function StateChips({ filters, counts, change }: { filters: Filters; counts: Record<string, number> | null; change: Change }) {
  const t = useText(common);
  const w = useText(words);
  const shown = JOB_STATES.filter((state) => ALWAYS.includes(state) || filters.state.includes(state) || (counts?.[state] ?? 0) > 0);
  return (
    <Chip.Group multiple value={filters.state} onChange={(values) => change({ state: values.filter(isJobState) })}>
      <Group gap={6} wrap="nowrap" className={classes.strip} role="group" aria-label={w('states')}>
        {shown.map((state) => (
          <Chip key={state} value={state} size="xs" variant="outline">
            {t(state)}
            {counts && (
              <>
                {' '}
                <NumberFormatter value={counts[state] ?? 0} thousandSeparator />
              </>
            )}
          </Chip>
        ))}
      </Group>
    </Chip.Group>
  );
}

export function SearchField({ value, change }: { value: string; change: Change }) {
  const t = useText(words);
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const later = useDebouncedCallback((q: string) => change({ q: q.trim() }), SEARCH_MS);
  return (
    <TextInput
      type="search"
      aria-label={t('searchLabel')}
      placeholder={t('searchLabel')}
      leftSection={<Icon name="search" size={16} />}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        later(event.currentTarget.value);
      }}
      style={{ flex: '1 1 14rem', maxWidth: '26rem' }}
    />
  );
}

export function Quick({ filters, change }: { filters: Filters; change: Change }) {
  const t = useText(words);
  const late = useLateList();
  return (
    <>
      <Switch label={t('mine')} checked={filters.mine} onChange={(event) => change({ mine: event.currentTarget.checked })} />
      <Select
        aria-label={t('sort')}
        w={185}
        allowDeselect={false}
        data={SORTS.map((sort) => ({ value: sort, label: t(sort) }))}
        value={filters.sort}
        onChange={(value) => change({ sort: (value ?? 'created') as Sort })}
        {...late}
      />
    </>
  );
}

export function More({ filters, change }: { filters: Filters; change: Change }) {
  const t = useText(words);
  const c = useText(common);
  const { who, isOperator } = useSession();
  const [isOpen, setOpen] = useState(false);
  const queues = useQueueNames(isOpen);
  const count = [filters.tenant, filters.queue, filters.user, filters.kind, filters.since, filters.until].filter(Boolean).length + filters.tag.length + filters.label.length;
  const tenants = who.tenants.map((tenant) => ({ value: tenant.slug, label: tenant.name }));
  const names = [...new Set((queues.data ?? []).filter((queue) => !filters.tenant || queue.tenant?.slug === filters.tenant).map((queue) => queue.name))];
  const inside = { withinPortal: false } as const;
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-end" width={320} trapFocus shadow="md">
      <Popover.Target>
        <Button variant="default" leftSection={<Icon name="filter" size={16} />} rightSection={count > 0 ? <Badge size="sm" circle>{count}</Badge> : undefined} onClick={() => setOpen(!isOpen)}>
          {t('filters')}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">
          {isOperator ? (
            <TextInput label={c('tenant')} placeholder={t('anyTenant')} defaultValue={filters.tenant} onBlur={(event) => change({ tenant: event.currentTarget.value.trim() })} onKeyDown={(event) => event.key === 'Enter' && change({ tenant: event.currentTarget.value.trim() })} />
          ) : (
            tenants.length > 1 && <Select label={c('tenant')} placeholder={t('anyTenant')} clearable searchable openOnFocus={false} comboboxProps={inside} data={tenants} value={filters.tenant || null} onChange={(value) => change({ tenant: value ?? '' })} />
          )}
          <Select label={c('queue')} placeholder={t('anyQueue')} clearable searchable openOnFocus={false} comboboxProps={inside} data={filters.queue && !names.includes(filters.queue) ? [...names, filters.queue] : names} value={filters.queue || null} onChange={(value) => change({ queue: value ?? '' })} />
          <TextInput label={t('userName')} defaultValue={filters.user} onBlur={(event) => change({ user: event.currentTarget.value.trim() })} onKeyDown={(event) => event.key === 'Enter' && change({ user: event.currentTarget.value.trim() })} />
          <TagsInput label={t('tags')} description={t('tagsHint')} openOnFocus={false} comboboxProps={inside} value={filters.tag} onChange={(tag) => change({ tag })} clearable />
          <TagsInput label={t('labels')} description={t('labelsHint')} openOnFocus={false} comboboxProps={inside} value={filters.label} onChange={(label) => change({ label: label.filter((each) => each.includes('=')) })} clearable />
          <Range filters={filters} change={change} />
          <Select label={t('kind')} placeholder={t('anyKind')} clearable openOnFocus={false} comboboxProps={inside} data={KINDS.map((kind) => ({ value: kind, label: t(kind) }))} value={filters.kind || null} onChange={(value) => change({ kind: (value ?? '') as Kind | '' })} />
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

/** When: a span back from now, or from one time until another. Of the list by end it asks when jobs ended. */
function Range({ filters, change }: { filters: Filters; change: Change }) {
  const t = useText(words);
  const [own, setOwn] = useState(false);
  const isSpan = SPANS.some((span) => span === filters.since) && !filters.until;
  const isOwn = own || Boolean((filters.since || filters.until) && !isSpan);
  return (
    <>
      <Select
        label={t(filters.sort === 'finished' ? 'ended' : 'since')}
        placeholder={t('sinceAny')}
        clearable
        openOnFocus={false}
        comboboxProps={{ withinPortal: false }}
        data={[...SPANS.map((span) => ({ value: span as string, label: t(`since${span}`) })), { value: 'own', label: t('sinceOwn') }]}
        value={isOwn ? 'own' : filters.since || null}
        onChange={(value) => {
          setOwn(value === 'own');
          if (value !== 'own') change({ since: value ?? '', until: '' });
        }}
      />
      {isOwn && (
        <OwnRange
          filters={filters}
          change={(times) => {
            setOwn(true); // Also where a time that was typed is no moment, which filters nothing.
            change(times);
          }}
        />
      )}
    </>
  );
}

function OwnRange({ filters, change }: { filters: Filters; change: Change }) {
  const t = useText(words);
  const format = useFormat();
  const [since, setSince] = useState<TypedMoment>(filters.since);
  const [until, setUntil] = useState<TypedMoment>(filters.until);
  return (
    <>
      <MomentInput
        label={`${t('from')} (${format.zoneName})`}
        value={since}
        onChange={(moment) => {
          setSince(moment);
          change({ since: moment ?? '' });
        }}
      />
      <MomentInput
        label={`${t('to')} (${format.zoneName})`}
        value={until}
        onChange={(moment) => {
          setUntil(moment);
          change({ until: moment ?? '' });
        }}
      />
    </>
  );
}

/** What narrows the list now; each can be taken away. */
export function Active({ filters, change, clear }: { filters: Filters; change: Change; clear: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const { who } = useSession();
  const pills: { key: string; label: string; without: Partial<Filters> }[] = [];
  if (filters.tenant) pills.push({ key: 'tenant', label: `${c('tenant')}: ${who.tenants.find((tenant) => tenant.slug === filters.tenant)?.name ?? filters.tenant}`, without: { tenant: '' } });
  if (filters.queue) pills.push({ key: 'queue', label: `${c('queue')}: ${filters.queue}`, without: { queue: '' } });
  if (filters.user) pills.push({ key: 'user', label: `${c('user')}: ${filters.user}`, without: { user: '' } });
  if (filters.kind) pills.push({ key: 'kind', label: t(filters.kind), without: { kind: '' } });
  if (filters.since) pills.push({ key: 'since', label: SPANS.some((span) => span === filters.since) ? `${t(filters.sort === 'finished' ? 'ended' : 'since')}: ${t(`since${filters.since as (typeof SPANS)[number]}`)}` : `${t('from')}: ${timeText(filters.since, format.time)}`, without: { since: '' } });
  if (filters.until) pills.push({ key: 'until', label: `${t('to')}: ${timeText(filters.until, format.time)}`, without: { until: '' } });
  if (filters.parent) pills.push({ key: 'parent', label: t('parent', { id: filters.parent }), without: { parent: '' } });
  for (const tag of filters.tag) pills.push({ key: `tag ${tag}`, label: tag, without: { tag: filters.tag.filter((each) => each !== tag) } });
  for (const label of filters.label) pills.push({ key: `label ${label}`, label, without: { label: filters.label.filter((each) => each !== label) } });
  if (pills.length === 0 && filters.state.length === 0 && !filters.mine && !filters.q) return null;
  return (
    <Group gap={6}>
      {pills.map((pill) => (
        <Badge
          key={pill.key}
          variant="light"
          className="berth-mark"
          rightSection={<CloseButton size={16} iconSize={12} variant="transparent" aria-label={t('removeFilter', { name: pill.label })} onClick={() => change(pill.without)} />}
        >
          {pill.label}
        </Badge>
      ))}
      <Button size="compact-xs" variant="subtle" onClick={clear}>
        {t('clearFilters')}
      </Button>
    </Group>
  );
}
