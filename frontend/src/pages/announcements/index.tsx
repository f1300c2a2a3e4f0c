/** Announcements that are shown, still to come, or over; made and taken back here. */

import { Group, Paper, Select, Stack, Text, Textarea } from '@mantine/core';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { MomentInput, type TypedMoment } from '@/ui/MomentInput';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';
import { Mark } from '@/ui/Status';
import { useNow } from '@/ui/Times';

import { Banner, type Level } from './Banner';
import { words } from './text';

type Row = Schemas['AnnouncementOut'];
const LEVEL_NAMES = ['info', 'warning', 'critical'] as const;
const EVERYBODY = '*';

const renew = () => queries.invalidateQueries({ queryKey: ['announcements'] });

export default function Announcements() {
  const t = useText(words);
  const session = useSession();
  const list = usePaged<Row>(['announcements', 'all'], (cursor) => take(api.GET('/api/v1/announcements', { params: { query: { all: true, limit: 50, cursor } } })));
  const mayAnnounce = session.isOperator || session.may('manager');
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <>
          <CopyAs
            ways={{
              curl: `${curl('GET', '/announcements?all=true')}\n\n${curl('POST', '/announcements', { text: 'Maintenance on Friday at 18:00.', text_zh: '周五 18:00 维护。', level: 'warning' })}`,
              python: 'from berth import Client\n\nwith Client() as client:\n    client.request("POST", "/announcements", json={"text": "Maintenance on Friday at 18:00.", "level": "warning"})',
            }}
          />
          {mayAnnounce && (
            <Dialog label={t('create')} title={t('create')} size="lg" leftSection={<Icon name="announcements" size={16} />}>
              {(close) => <Editor close={close} />}
            </Dialog>
          )}
        </>
      }
    >
      <PagedView
        list={list}
        empty={
          <Empty icon="announcements" title={t('empty')}>
            {t('emptyHint')}
          </Empty>
        }
      >
        {(rows) => (
          <Stack component="ul" gap="sm" p={0} m={0} style={{ listStyle: 'none' }}>
            {rows.map((row) => (
              <li key={row.id}>
                <One row={row} />
              </li>
            ))}
          </Stack>
        )}
      </PagedView>
    </Page>
  );
}

function One({ row }: { row: Row }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const now = useNow();
  const isComing = Date.parse(row.starts_at) > now;
  return (
    <Paper withBorder p="md">
      <Stack gap="xs">
        <Banner level={row.level} text={row.text} textZh={row.text_zh} tenant={row.tenant?.name ?? null} />
        <Group justify="space-between">
          <Group gap="xs">
            {row.active ? <Mark icon="check" color="teal" label={t('shown')} /> : isComing ? <Mark icon="clock" color="blue" label={t('coming')} /> : <Mark icon="stop" color="gray" label={t('over')} />}
            <Text size="sm">
              <bdi>{row.everybody ? t('everybody') : (row.tenant?.name ?? t('above'))}</bdi> · {format.timeWithZone(row.starts_at)} – {row.ends_at ? format.timeWithZone(row.ends_at) : t('open')}
            </Text>
            <Text size="sm" c="dimmed">
              {row.created_by && t('by', { name: row.created_by.name })} {row.dismissed && `· ${t('dismissed')}`}
            </Text>
          </Group>
          {row.may_edit && (
            <Group gap="xs">
              <Dialog label={c('edit')} title={t('editTitle')} size="lg" variant="default" buttonSize="xs" leftSection={<Icon name="edit" size={14} />}>
                {(close) => <Editor row={row} close={close} />}
              </Dialog>
              <Confirm
                label={t('takeBack')}
                title={t('takeBackTitle')}
                size="xs"
                variant="light"
                color="red"
                act={async () => {
                  await api.DELETE('/api/v1/announcements/{announcement_id}', { params: { path: { announcement_id: row.id } } });
                  await renew();
                }}
              >
                {t('takeBackHint')}
              </Confirm>
            </Group>
          )}
        </Group>
      </Stack>
    </Paper>
  );
}

function Editor({ row, close }: { row?: Row; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const session = useSession();
  const managed = session.who.tenants.filter((tenant) => session.isOperator || session.may('manager', tenant.slug));
  const [text, setText] = useState(row?.text ?? '');
  const [textZh, setTextZh] = useState(row?.text_zh ?? '');
  const [level, setLevel] = useState<Level>(row?.level ?? 'info');
  const [tenant, setTenant] = useState<string>(session.isOperator ? EVERYBODY : (managed[0]?.slug ?? ''));
  const [from, setFrom] = useState<TypedMoment>(row?.starts_at ?? '');
  const [until, setUntil] = useState<TypedMoment>(row?.ends_at ?? '');
  const submit = async () => {
    const body = { text: text.trim(), text_zh: textZh.trim(), level, ends_at: until || null };
    if (row) {
      await api.PATCH('/api/v1/announcements/{announcement_id}', {
        params: { path: { announcement_id: row.id }, header: { 'If-Match': `"${row.version}"` } },
        body: { ...body, ...(from && from !== row.starts_at ? { starts_at: from } : {}) },
      });
    } else await api.POST('/api/v1/announcements', { body: { ...body, ...(from ? { starts_at: from } : {}), tenant: tenant === EVERYBODY ? null : tenant } });
    await renew();
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={row ? c('save') : t('create')} isReady={text.trim() !== ''}>
      {(at) => (
        <>
          {row && (
            <Text size="sm" c="dimmed">
              {t('editHint')}
            </Text>
          )}
          <Textarea label={t('text')} value={text} onChange={(event) => setText(event.currentTarget.value)} error={at('/text')} autosize minRows={2} required data-autofocus />
          <Textarea label={t('textZh')} description={t('textZhHint')} lang="zh-CN" value={textZh} onChange={(event) => setTextZh(event.currentTarget.value)} error={at('/text_zh')} autosize minRows={2} />
          <Group grow align="flex-start">
            <Select label={t('level')} data={LEVEL_NAMES.map((value) => ({ value, label: t(value) }))} value={level} onChange={(value) => value && setLevel(value as Level)} allowDeselect={false} error={at('/level')} />
            {!row && (
              <Select
                label={t('forWhom')}
                data={[...(session.isOperator ? [{ value: EVERYBODY, label: t('everybody') }] : []), ...managed.map((found) => ({ value: found.slug, label: found.name }))]}
                value={tenant}
                onChange={(value) => value && setTenant(value)}
                allowDeselect={false}
                searchable
                error={at('/tenant')}
              />
            )}
          </Group>
          <Group grow align="flex-start">
            <MomentInput label={t('from')} description={t('fromHint', { zone: format.zoneName })} value={from} onChange={setFrom} error={at('/starts_at')} />
            <MomentInput label={t('until')} description={t('untilHint')} value={until} onChange={setUntil} error={at('/ends_at')} />
          </Group>
          {text.trim() && (
            <Stack gap={4}>
              <Text size="sm" fw={600}>
                {t('preview')}
              </Text>
              <Banner level={level} text={text.trim()} textZh={textZh.trim()} tenant={row ? (row.tenant?.name ?? null) : tenant === EVERYBODY ? null : (managed.find((found) => found.slug === tenant)?.name ?? null)} />
            </Stack>
          )}
        </>
      )}
    </Form>
  );
}
