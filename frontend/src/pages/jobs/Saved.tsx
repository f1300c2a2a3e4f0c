/** Filters kept under a name, by the person: on every machine, not in this browser. */

import { ActionIcon, Button, Group, Menu, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { asProblem } from '@/api/problem';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Form } from '@/ui/Dialog';
import { Icon } from '@/ui/Icon';
import { notify, notifyProblem } from '@/ui/notify';
import { Window } from '@/ui/Window';

import { words } from './text';

type SavedFilter = Schemas['SavedFilterOut'];
const KEY = ['saved-filters', 'jobs'] as const;
const NAME_LENGTH = 63;

export function Saved({ current, apply }: { current: string; apply: (query: string) => void }) {
  const t = useText(words);
  const cache = useQueryClient();
  const [open, setOpen] = useState<'name' | 'manage' | null>(null);
  const close = () => setOpen(null);
  const saved = useQuery({
    queryKey: KEY,
    staleTime: 60_000,
    queryFn: async ({ signal }) => (await take(api.GET('/api/v1/saved-filters', { params: { query: { page: 'jobs', limit: 100 } }, signal }))).items,
  });
  if (saved.error && asProblem(saved.error).status === 404) return null; // Switched off here.
  const items = saved.data ?? [];
  const remove = async (id: string) => {
    try {
      await take(api.DELETE('/api/v1/saved-filters/{filter_id}', { params: { path: { filter_id: id } } }));
      cache.setQueryData<SavedFilter[]>(KEY, (old) => old?.filter((each) => each.id !== id));
    } catch (error) {
      notifyProblem(error);
    }
  };
  return (
    <>
      <Menu position="bottom-end" width={260}>
        <Menu.Target>
          <Button variant="default" leftSection={<Icon name="star" size={16} />} disabled={items.length === 0 && current === ''} title={items.length === 0 ? t('savedNone') : undefined}>
            {t('saved')}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {items.map((item) => (
            <Menu.Item key={item.id} onClick={() => apply(item.query)}>
              <Text size="sm" truncate>
                {item.name}
              </Text>
            </Menu.Item>
          ))}
          {items.length > 0 && <Menu.Divider />}
          <Menu.Item leftSection={<Icon name="submit" size={14} />} disabled={current === ''} aria-haspopup="dialog" onClick={() => setOpen('name')}>
            {t('saveThis')}
          </Menu.Item>
          {items.length > 0 && (
            <Menu.Item leftSection={<Icon name="edit" size={14} />} aria-haspopup="dialog" onClick={() => setOpen('manage')}>
              {t('savedManage')}
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <Window opened={open === 'name'} onClose={close} title={t('saveThis')}>
        <Naming
          query={current}
          close={close}
          done={(item) => {
            cache.setQueryData<SavedFilter[]>(KEY, (old) => [...(old ?? []).filter((each) => each.id !== item.id), item]);
            close();
            notify(t('saveTaken', { name: item.name }));
          }}
        />
      </Window>
      <Window opened={open === 'manage'} onClose={close} title={t('saved')}>
        <Manage items={items} remove={remove} />
      </Window>
    </>
  );
}

function Manage({ items, remove }: { items: readonly SavedFilter[]; remove: (id: string) => Promise<void> }) {
  const t = useText(words);
  if (items.length === 0) return <Text c="dimmed">{t('savedNone')}</Text>;
  return (
    <Stack gap="xs" component="ul" m={0} p={0} style={{ listStyle: 'none' }}>
      {items.map((item) => (
        <Group key={item.id} component="li" gap="xs" wrap="nowrap" justify="space-between">
          <div style={{ minWidth: 0, overflowWrap: 'anywhere' }}>
            <Text size="sm">{item.name}</Text>
            <Text size="xs" c="dimmed" ff="monospace">
              {item.query}
            </Text>
          </div>
          <ActionIcon variant="subtle" color="red" aria-label={t('savedDelete', { name: item.name })} title={t('savedDelete', { name: item.name })} onClick={() => void remove(item.id)}>
            <Icon name="trash" size={16} />
          </ActionIcon>
        </Group>
      ))}
    </Stack>
  );
}

function Naming({ query, close, done }: { query: string; close: () => void; done: (item: SavedFilter) => void }) {
  const t = useText(words);
  const c = useText(common);
  const [name, setName] = useState('');
  const save = async () => done(await take(api.POST('/api/v1/saved-filters', { body: { page: 'jobs', name: name.trim(), query } })));
  return (
    <Form submit={save} onCancel={close} label={c('save')}>
      {(at) => <TextInput label={t('saveName')} value={name} maxLength={NAME_LENGTH} onChange={(event) => setName(event.currentTarget.value)} required error={at('/name')} />}
    </Form>
  );
}
