/** Filters kept under a name, by the person: on every machine, not in this browser. */

import { ActionIcon, Button, Group, Menu, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { asProblem } from '@/api/problem';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify, notifyProblem } from '@/ui/notify';

import { words } from './text';

type SavedFilter = Schemas['SavedFilterOut'];
const KEY = ['saved-filters', 'jobs'] as const;
const NAME_LENGTH = 63;

export function Saved({ current, apply }: { current: string; apply: (query: string) => void }) {
  const t = useText(words);
  const c = useText(common);
  const cache = useQueryClient();
  const [isNaming, setNaming] = useState(false);
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
          <Button variant="default" leftSection={<Icon name="star" size={16} />}>
            {t('saved')}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {items.length === 0 && <Menu.Label>{t('savedNone')}</Menu.Label>}
          {items.map((item) => (
            <Group key={item.id} gap={4} wrap="nowrap">
              <Menu.Item onClick={() => apply(item.query)} style={{ flex: 1, minWidth: 0 }}>
                <Text size="sm" truncate>
                  {item.name}
                </Text>
              </Menu.Item>
              <ActionIcon variant="subtle" color="gray" aria-label={t('savedDelete', { name: item.name })} onClick={() => void remove(item.id)}>
                <Icon name="trash" size={14} />
              </ActionIcon>
            </Group>
          ))}
          <Menu.Divider />
          <Menu.Item leftSection={<Icon name="submit" size={14} />} disabled={current === ''} onClick={() => setNaming(true)}>
            {t('saveThis')}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Modal opened={isNaming} onClose={() => setNaming(false)} title={t('saveThis')} closeButtonProps={{ 'aria-label': c('close') }}>
        <Naming
          query={current}
          done={(item) => {
            cache.setQueryData<SavedFilter[]>(KEY, (old) => [...(old ?? []).filter((each) => each.id !== item.id), item]);
            setNaming(false);
            notify(t('saveTaken', { name: item.name }));
          }}
        />
      </Modal>
    </>
  );
}

function Naming({ query, done }: { query: string; done: (item: SavedFilter) => void }) {
  const t = useText(words);
  const c = useText(common);
  const [name, setName] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      done(await take(api.POST('/api/v1/saved-filters', { body: { page: 'jobs', name: name.trim(), query } })));
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <Stack>
        <TextInput label={t('saveName')} value={name} maxLength={NAME_LENGTH} onChange={(event) => setName(event.currentTarget.value)} required data-autofocus error={error ? asProblem(error).at('/name') : undefined} />
        {error !== null && !asProblem(error).at('/name') && <ProblemView error={error} />}
        <Group justify="flex-end">
          <Button type="submit" loading={isBusy}>
            {c('save')}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
