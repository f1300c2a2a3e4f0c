/** Which other tenants may mount a volume. */

import { ActionIcon, Group, Stack, Switch, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take } from '@/api/client';
import { useText } from '@/text/language';
import { Dialog, Form } from '@/ui/Dialog';
import { Icon } from '@/ui/Icon';
import { notifyProblem } from '@/ui/notify';
import { Mark } from '@/ui/Status';

import { words } from './text';
import type { Volume } from './Volumes';

export function Sharing({ volume }: { volume: Volume }) {
  const t = useText(words);
  return (
    <Dialog label={t('grants')} title={t('grants')} variant="default" leftSection={<Icon name="link" size={16} />}>
      {() => <Grants volume={volume} />}
    </Dialog>
  );
}

function Grants({ volume }: { volume: Volume }) {
  const t = useText(words);
  const cache = useQueryClient();
  const [tenant, setTenant] = useState('');
  const [mayWrite, setMayWrite] = useState(false);
  const path = { volume_id: volume.id };
  const again = () => Promise.all([cache.invalidateQueries({ queryKey: ['volume', volume.id] }), cache.invalidateQueries({ queryKey: ['volumes'] })]);
  const submit = async () => {
    await take(api.POST('/api/v1/volumes/{volume_id}/grants', { params: { path }, body: { tenant: tenant.trim(), read_only: !mayWrite } }));
    setTenant('');
    await again();
  };
  const remove = async (grant_id: string) => {
    try {
      await take(api.DELETE('/api/v1/volumes/{volume_id}/grants/{grant_id}', { params: { path: { ...path, grant_id } } }));
      await again();
    } catch (error) {
      notifyProblem(error);
    }
  };
  return (
    <Stack>
      <Text size="sm" c="dimmed">
        {t('grantsText', { as: `${volume.tenant.slug}/${volume.name}` })}
      </Text>
      {volume.grants.map((grant) => (
        <Group key={grant.id} justify="space-between" wrap="nowrap">
          <Group gap="xs">
            <Text size="sm">{grant.tenant.name}</Text>
            <Mark icon={grant.read_only ? 'key' : 'edit'} color={grant.read_only ? 'gray' : 'orange'} label={t(grant.read_only ? 'readOnly' : 'mayWrite')} size="sm" />
          </Group>
          <ActionIcon variant="subtle" color="red" aria-label={t('grantRemove', { name: grant.tenant.name })} onClick={() => void remove(grant.id)}>
            <Icon name="trash" size={16} />
          </ActionIcon>
        </Group>
      ))}
      <Form submit={submit} label={t('grantAdd')} isReady={tenant.trim() !== ''}>
        {(at) => (
          <>
            <TextInput label={t('grantTo')} value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} error={at('/tenant')} required data-autofocus />
            <Switch label={t('grantWrite')} checked={mayWrite} onChange={(event) => setMayWrite(event.currentTarget.checked)} />
          </>
        )}
      </Form>
    </Stack>
  );
}
