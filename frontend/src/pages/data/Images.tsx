/** What jobs run in, how it was built, and what went wrong there. */

import { Anchor, Badge, Button, Code, Group, ScrollArea, Select, SegmentedControl, Stack, Table, Text, Textarea, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, CopyText, curl } from '@/ui/CopyAs';
import { Dialog, Form } from '@/ui/Dialog';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notifyProblem } from '@/ui/notify';
import { PagedView } from '@/ui/PagedView';
import { plain } from '@/ui/plain';
import { Rows, type Column } from '@/ui/Rows';
import { Said } from '@/ui/Said';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { Elapsed, When } from '@/ui/Times';
import { Window } from '@/ui/Window';

import { words } from './text';

type Image = Schemas['ImageOut'];
const KEY = ['images'] as const;
const PAGE = 100;
const WAYS = ['python', 'registry', 'build'] as const;
type Way = (typeof WAYS)[number];
const LOOK = {
  queued: { icon: 'hourglass', color: 'yellow' },
  building: { icon: 'refresh', color: 'blue' },
  ready: { icon: 'check', color: 'teal' },
  succeeded: { icon: 'check', color: 'teal' },
  failed: { icon: 'cross', color: 'red' },
} as const;

export default function Images() {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const [opened, setOpened] = useState<Image | null>(null);
  const list = usePaged([...KEY, 'list'], (cursor) => take(api.GET('/api/v1/images', { params: { query: { limit: PAGE, cursor } } })));
  const columns = useMemo<readonly Column<Image>[]>(
    () => [
      { key: 'name', header: c('name'), width: 'minmax(8rem, 2fr)', cell: (image) => <Name image={image} open={() => setOpened(image)} /> },
      { key: 'tenant', header: c('tenant'), width: 'minmax(6rem, 1fr)', isMinor: true, cell: (image) => <Text size="sm">{image.tenant?.name ?? t('everybody')}</Text> },
      { key: 'kind', header: t('imageKind'), width: 'minmax(8rem, 1fr)', isMinor: true, cell: (image) => <Text size="sm">{t(image.kind)}</Text> },
      { key: 'state', header: t('state'), width: '8rem', cell: (image) => <Mark {...LOOK[image.state]} label={t(image.state)} size="sm" /> },
      { key: 'size', header: t('size'), width: '6rem', isMinor: true, cell: (image) => <Size image={image} /> },
      { key: 'made', header: t('made'), width: '9rem', isMinor: true, cell: (image) => (image.state === 'ready' ? <When at={image.ready_at ?? image.created_at} size="sm" /> : '–') },
    ],
    [t, c],
  );
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed" size="sm">
          {t('imagesText')}
        </Text>
        <Group gap="xs">
          <CopyAs ways={{ cli: 'berth images list', curl: curl('GET', '/images'), python: 'import berth\n\nwith berth.Client() as client:\n    for image in client.images.list():\n        print(image["name"], image["state"])' }} />
          {session.may('member') && (
            <Dialog label={t('imageCreate')} title={t('imageCreate')} leftSection={<Icon name="submit" size={16} />}>
              {(close) => <Create close={close} />}
            </Dialog>
          )}
        </Group>
      </Group>
      <PagedView list={list} isVirtual empty={<Empty icon="clusters" title={t('imagesNone')} command="berth images --help">{t('imagesNoneHint')}</Empty>}>
        {(rows) => <Rows label={t('images')} rows={rows} columns={columns} rowKey={(image) => image.id} rowHeight={56} onEnd={list.more} height={`min(calc(100dvh - 19rem), ${rows.length * 56 + 48}px)`} />}
      </PagedView>
      {opened && <Details image={opened} close={() => setOpened(null)} />}
    </Stack>
  );
}

function Name({ image, open }: { image: Image; open: () => void }) {
  return (
    <Stack gap={2}>
      <Anchor component="button" type="button" fw={600} size="sm" ta="left" truncate aria-haspopup="dialog" onClick={open}>
        {image.name}
      </Anchor>
      <Text size="xs" c={image.error ? 'red' : 'dimmed'} truncate title={plain(image.error ?? image.description)}>
        <Said text={image.error ?? (image.description || image.reference)} />
      </Text>
    </Stack>
  );
}

function Size({ image }: { image: Image }) {
  const format = useFormat();
  return (
    <Text size="sm" c="dimmed">
      {image.size_bytes === null ? '–' : format.bytes(image.size_bytes)}
    </Text>
  );
}

function Details({ image, close }: { image: Image; close: () => void }) {
  const t = useText(words);
  const session = useSession();
  const cache = useQueryClient();
  const path = { image_id: image.id };
  const isBuilt = image.kind === 'python' || image.containerfile !== null || image.base !== null;
  const whole = useQuery({ queryKey: [...KEY, 'one', image.id], queryFn: () => take(api.GET('/api/v1/images/{image_id}', { params: { path } })) });
  const builds = useQuery({ queryKey: [...KEY, 'builds', image.id], enabled: isBuilt, queryFn: () => take(api.GET('/api/v1/images/{image_id}/builds', { params: { path, query: { limit: 20 } } })) });
  const slug = image.tenant?.slug;
  const mayEdit = slug === undefined ? session.isOperator : session.may('manager', slug) || (session.may('member', slug) && image.created_by?.id === session.who.user.id);
  const again = () => cache.invalidateQueries({ queryKey: KEY });
  const rebuild = async () => {
    try {
      await take(api.POST('/api/v1/images/{image_id}/builds', { params: { path } }));
      await again();
    } catch (error) {
      notifyProblem(error);
    }
  };
  const remove = async () => {
    await take(api.DELETE('/api/v1/images/{image_id}', { params: { path } }));
    await again();
    close();
  };
  return (
    <Window onClose={close} size="xl" title={image.name}>
      <Stack>
        <Group gap="xs">
          <Mark {...LOOK[image.state]} label={t(image.state)} size="sm" />
          <Badge variant="default" className="berth-mark">
            {t(image.kind)}
          </Badge>
          {image.kind === 'registry' && !image.pinned && <Mark icon="alert" color="yellow" label={t('notPinned')} size="sm" />}
          {image.description && <Text size="sm">{image.description}</Text>}
        </Group>
        {image.error && (
          <Text size="sm" c="red" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
            <Said text={image.error} />
          </Text>
        )}
        {image.reference && <Line label={t('reference')} text={image.reference} />}
        {image.digest && image.digest !== 'host' && <Line label={t('digest')} text={image.digest} />}
        {image.base && <Line label={t('base')} text={image.base} />}
        {image.containerfile && (
          <Stack gap={4}>
            <Text size="sm" fw={600}>
              {t('containerfile')}
            </Text>
            <ScrollArea.Autosize mah={240}>
              <Code block>{image.containerfile}</Code>
            </ScrollArea.Autosize>
          </Stack>
        )}
        {image.requirements && (
          <Stack gap={4}>
            <Text size="sm" fw={600}>
              {t('requirements')}
            </Text>
            <ScrollArea.Autosize mah={180}>
              <Code block>{image.requirements}</Code>
            </ScrollArea.Autosize>
          </Stack>
        )}
        {whole.data?.packages && whole.data.packages.length > 0 && (
          <Text size="sm" c="dimmed" title={whole.data.packages.map((each) => `${each.name} ${each.version}`).join('\n')}>
            {t('packages', { count: whole.data.packages.length })}
          </Text>
        )}
        {isBuilt && (
          <Stack gap="xs">
            <Text size="sm" fw={600}>
              {t('buildsOf', { name: image.name })}
            </Text>
            <Answer query={builds} lines={2}>
              {(page) => (page.items.length === 0 ? <Text size="sm" c="dimmed">{t('buildsNone')}</Text> : <Builds builds={page.items} />)}
            </Answer>
          </Stack>
        )}
        {mayEdit && image.kind !== 'host' && (
          <Group justify="flex-end">
            {isBuilt && (
              <Button variant="default" onClick={() => void rebuild()}>
                {t('rebuild')}
              </Button>
            )}
            <Confirm label={t('delete')} title={t('delete')} color="red" variant="light" act={remove}>
              {t('imageDeleteAsk', { name: image.name })}
            </Confirm>
          </Group>
        )}
      </Stack>
    </Window>
  );
}

function Line({ label, text }: { label: string; text: string }) {
  return (
    <Group gap={4} wrap="nowrap">
      <Text size="sm" fw={600}>
        {label}
      </Text>
      <Code style={{ overflowWrap: 'anywhere' }}>{text}</Code>
      <CopyText text={text} />
    </Group>
  );
}

function Builds({ builds }: { builds: readonly Schemas['BuildOut'][] }) {
  const t = useText(words);
  return (
    <SmallTable label={t('builds')} head={[t('state'), t('by'), t('modified'), t('took'), '']} minWidth={480}>
      {builds.map((build) => (
        <Table.Tr key={build.id}>
          <Table.Td>
            <Mark {...LOOK[build.state]} label={t(build.state)} size="sm" />
            {build.error && (
              <Text size="xs" c="red" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
                {build.error}
              </Text>
            )}
          </Table.Td>
          <Table.Td>{build.requested_by?.name ?? '–'}</Table.Td>
          <Table.Td>
            <When at={build.created_at} />
          </Table.Td>
          <Table.Td>
            <Elapsed from={build.started_at} to={build.ended_at} />
          </Table.Td>
          <Table.Td>
            {build.job_id && (
              <Anchor component={Link} to={`/jobs/${build.job_id}`} size="sm">
                {t('buildJob')}
              </Anchor>
            )}
          </Table.Td>
        </Table.Tr>
      ))}
    </SmallTable>
  );
}

function Create({ close }: { close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const { who, may } = useSession();
  const cache = useQueryClient();
  const tenants = who.tenants.filter((tenant) => may('member', tenant.slug));
  const [tenant, setTenant] = useState(tenants[0]?.slug ?? '');
  const [way, setWay] = useState<Way>('python');
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [text, setText] = useState('');
  const [file, setFile] = useState('');
  const submit = async () => {
    const basics = { name: name.trim(), tenant, description, shared: false };
    const body = way === 'python' ? { ...basics, kind: 'python' as const, requirements: text } : { ...basics, kind: 'registry' as const, reference: text.trim(), ...(way === 'build' ? { containerfile: file } : {}) };
    await take(api.POST('/api/v1/images', { body }));
    await cache.invalidateQueries({ queryKey: KEY });
    close();
  };
  return (
    <Form submit={submit} label={c('create')} onCancel={close}>
      {(at) => (
        <>
          <SegmentedControl aria-label={t('imageKind')} value={way} onChange={(value) => setWay(WAYS.find((each) => each === value) ?? 'python')} data={WAYS.map((each) => ({ value: each, label: each === 'build' ? t('toBuild') : t(each) }))} />
          <TextInput label={c('name')} description={t('nameHint')} value={name} maxLength={63} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required data-autofocus />
          {tenants.length > 1 && <Select label={c('tenant')} allowDeselect={false} data={tenants.map((each) => ({ value: each.slug, label: each.name }))} value={tenant} onChange={(value) => setTenant(value ?? '')} error={at('/tenant')} />}
          {way === 'python' ? (
            <Textarea label={t('requirements')} description={t('requirementsHint')} autosize minRows={4} maxRows={12} ff="monospace" value={text} onChange={(event) => setText(event.currentTarget.value)} error={at('/requirements')} required />
          ) : (
            <TextInput label={t('reference')} description={way === 'build' ? t('pushHint') : t('referenceHint')} value={text} onChange={(event) => setText(event.currentTarget.value)} error={at('/reference')} required />
          )}
          {way === 'build' && <Textarea label={t('containerfile')} description={t('containerfileHint')} autosize minRows={4} maxRows={16} ff="monospace" value={file} onChange={(event) => setFile(event.currentTarget.value)} error={at('/containerfile')} required />}
          <TextInput label={t('description')} value={description} maxLength={500} onChange={(event) => setDescription(event.currentTarget.value)} error={at('/description')} />
        </>
      )}
    </Form>
  );
}
