/** All templates that one may use, as cards. The filters stand in the address. */

import { Badge, Button, Card, Group, NativeSelect, Pill, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { api, take } from '@/api/client';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useLanguage, useText } from '@/text/language';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Said } from '@/ui/Said';

import { inLanguage, type Template } from './asking';
import { TemplateSign } from './signs';
import { TestMark } from './TestRun';
import classes from './Templates.module.css';
import { words } from './text';

const PAGE = 60;

export function Gallery() {
  const t = useText(words);
  const shared = useText(common);
  const session = useSession();
  const [search, put] = useAddress();
  const q = search.get('q') ?? '';
  const tag = search.get('tag') ?? '';
  const whose = search.get('whose') ?? '';
  const [typed, setTyped] = useState(q);
  const find = useDebouncedCallback((value: string) => put({ q: value }), 300);
  const query = { limit: PAGE, ...(q ? { q } : {}), ...(tag ? { tag: [tag] } : {}), ...(whose === 'public' ? { public: true } : whose === 'tenant' ? { public: false } : {}) };
  const list = useInfiniteQuery({
    queryKey: ['templates', 'list', query],
    initialPageParam: '',
    queryFn: ({ pageParam }) => take(api.GET('/api/v1/templates', { params: { query: { ...query, ...(pageParam ? { cursor: pageParam } : {}) } } })),
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });
  const rows = list.data?.pages.flatMap((page) => page.items) ?? [];
  const isFiltered = q !== '' || tag !== '' || whose !== '';
  const known = [...new Set([...rows.flatMap((row) => row.tags), ...(tag ? [tag] : [])])].sort();
  const clear = () => {
    setTyped('');
    put({ q: null, tag: null, whose: null });
  };
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <>
          <CopyAs
            ways={{
              cli: `berth templates list${q ? ` --search ${quote(q)}` : ''}${tag ? ` --tag ${quote(tag)}` : ''}`,
              curl: curl('GET', `/templates${q || tag ? `?${new URLSearchParams({ ...(q ? { q } : {}), ...(tag ? { tag } : {}) }).toString()}` : ''}`),
              python: `import berth\n\nwith berth.Client() as client:\n    for template in client.templates.list(${[q ? `q=${JSON.stringify(q)}` : '', tag ? `tag=${JSON.stringify(tag)}` : ''].filter(Boolean).join(', ')}):\n        print(template["name"], template["title"])`,
            }}
          />
          {(session.may('member') || session.isOperator) && (
            <Button component={Link} to="/templates/new" leftSection={<Icon name="submit" size={16} />}>
              {t('new')}
            </Button>
          )}
        </>
      }
    >
      <Group align="flex-end">
        <TextInput
          type="search"
          label={shared('search')}
          placeholder={t('searchHint')}
          leftSection={<Icon name="search" size={16} />}
          value={typed}
          onChange={(event) => {
            setTyped(event.currentTarget.value);
            find(event.currentTarget.value.trim());
          }}
          style={{ flex: '1 1 14rem' }}
          maw={420}
        />
        <NativeSelect
          label={t('whose')}
          value={whose}
          onChange={(event) => put({ whose: event.currentTarget.value })}
          data={[
            { value: '', label: t('everyones') },
            { value: 'public', label: t('onlyPublic') },
            { value: 'tenant', label: t('onlyTenants') },
          ]}
        />
        <NativeSelect label={t('tags')} value={tag} onChange={(event) => put({ tag: event.currentTarget.value })} data={[{ value: '', label: t('noTag') }, ...known.map((name) => ({ value: name, label: name }))]} />
        {isFiltered && (
          <Button variant="subtle" onClick={clear}>
            {t('clear')}
          </Button>
        )}
      </Group>
      {list.error && !list.data ? (
        <ProblemView error={list.error} retry={() => void list.refetch()} />
      ) : !list.data ? (
        <Loading lines={8} />
      ) : rows.length === 0 ? (
        isFiltered ? (
          <Empty icon="search" title={t('noneFound')} action={<Button variant="default" onClick={clear}>{t('clear')}</Button>}>
            {t('noneFoundHint')}
          </Empty>
        ) : (
          <Empty icon="templates" title={t('empty')} action={session.may('member') ? <Button component={Link} to="/submit">{t('writeJob')}</Button> : undefined} command="berth templates list">
            {t('emptyHint')}
          </Empty>
        )
      ) : (
        <>
          <SimpleGrid component="ul" cols={{ base: 1, xs: 2, lg: 3 }} m={0} p={0} style={{ listStyle: 'none', opacity: list.isPlaceholderData ? 0.6 : 1 }}>
            {rows.map((row) => (
              <TemplateCard key={row.id} row={row} />
            ))}
          </SimpleGrid>
          {list.hasNextPage && (
            <Group justify="center">
              <Button variant="default" onClick={() => void list.fetchNextPage()} loading={list.isFetchingNextPage}>
                {shared('more')}
              </Button>
            </Group>
          )}
        </>
      )}
    </Page>
  );
}

function TemplateCard({ row }: { row: Template }) {
  const t = useText(words);
  const { language } = useLanguage();
  const told = inLanguage(row, language);
  return (
    <Card component="li" withBorder padding="md" className={classes.card}>
      <Stack gap="sm" h="100%">
        <Group wrap="nowrap" align="flex-start">
          <TemplateSign name={row.icon} />
          <div style={{ minWidth: 0, flex: 1 }}>
            <Text component="h2" fw={600} size="md" style={{ overflowWrap: 'anywhere' }}>
              <Link to={`/templates/${row.id}`} className={classes.link}>
                {told.title || row.name}
              </Link>
            </Text>
            <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
              {row.name}
            </Text>
          </div>
          {row.public && <Whose row={row} />}
        </Group>
        {!row.public && <Whose row={row} />}
        <Text size="sm" lineClamp={3} style={{ overflowWrap: 'anywhere' }}>
          <Said text={told.description} />
        </Text>
        <Group gap={6} mt="auto">
          <TestMark row={row} />
          {row.tags.slice(0, 5).map((tag) => (
            <Pill key={tag}>{tag}</Pill>
          ))}
        </Group>
        <Text size="xs" c="dimmed">
          {[t('parametersCount', { count: row.parameters.length }), t('uses', { count: row.uses }), ...(row.owner ? [t('by', { name: row.owner.name })] : [])].join(' · ')}
        </Text>
      </Stack>
    </Card>
  );
}

export function Whose({ row }: { row: Template }) {
  const t = useText(words);
  return (
    <Badge variant="light" color={row.public ? 'teal' : 'blue'} className="berth-mark" maw="100%" style={{ flexShrink: 0 }}>
      {row.public ? t('public') : t('ofTenant', { name: row.tenant?.name ?? '' })}
    </Badge>
  );
}
