/** One cluster: how it is, how it is reached, and what operators do with it. */

import { Card, Group, List, Stack, Text, Title } from '@mantine/core';

import { api, take } from '@/api/client';
import type { Cluster } from '@/api/fleet';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Dialog } from '@/ui/Dialog';
import { notify } from '@/ui/notify';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { ClusterForm } from './ClusterForm';
import { CheckButton } from './Findings';
import { words } from './text';

const LOOK = { reachable: { icon: 'check', color: 'teal' }, lost_contact: { icon: 'alert', color: 'red' }, unknown: { icon: 'hourglass', color: 'gray' } } as const;

export function ClusterCard({ cluster }: { cluster: Cluster }) {
  const t = useText(words);
  const condition = cluster.condition.name;
  const { isOperator } = useSession();
  return (
    <Card withBorder component="section" aria-label={cluster.name}>
      <Group justify="space-between" mb="xs">
        <Group gap="xs">
          <Title order={2} size="h4" style={{ overflowWrap: 'anywhere' }}>
            {cluster.name}
          </Title>
          <Text size="sm" c="dimmed">
            {t('kind')}: {cluster.kind}
          </Text>
        </Group>
        <Group gap="xs">
          {cluster.lost_at && <Mark icon="alert" color="red" label={t('lost')} />}
          {!cluster.is_enabled && <Mark icon="pause" color="gray" label={t('disabled')} />}
          <Mark icon={LOOK[condition].icon} color={LOOK[condition].color} label={t(condition)} />
        </Group>
      </Group>
      <Stack gap={6}>
        <Text size="sm" c="dimmed">
          {cluster.condition.since_at && (
            <>
              {t(condition)} {t('since')} <When at={cluster.condition.since_at} size="sm" /> ·{' '}
            </>
          )}
          {t('inventory')} <When at={cluster.inventory_read_at} size="sm" />
        </Text>
        {cluster.condition.detail && (
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            <Said text={cluster.condition.detail} />
          </Text>
        )}
        {cluster.access && <AccessLine access={cluster.access} />}
        {cluster.inventory_read_at && <Mark icon={cluster.isolation.tenants_kept_apart ? 'check' : 'alert'} color={cluster.isolation.tenants_kept_apart ? 'teal' : 'red'} label={t(cluster.isolation.tenants_kept_apart ? 'apart' : 'notApart')} />}
        <List size="sm" aria-label={t('isolation')}>
          {cluster.isolation.facts.map((fact) => (
            <List.Item key={fact}>
              <Said text={fact} />
            </List.Item>
          ))}
        </List>
        {isOperator && <Actions cluster={cluster} />}
      </Stack>
    </Card>
  );
}

function AccessLine({ access }: { access: NonNullable<Cluster['access']> }) {
  const t = useText(words);
  return (
    <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
      {t('account', { account: access.account, server: access.server })}
      {access.expires_at && (
        <>
          {' '}
          · {t('expires')} <When at={access.expires_at} size="sm" />
        </>
      )}
      {!access.verifies_tls && (
        <>
          {' '}
          · <Mark icon="alert" color="yellow" label={t('notVerified')} size="sm" />
        </>
      )}
    </Text>
  );
}

function Actions({ cluster }: { cluster: Cluster }) {
  const t = useText(words);
  const w = useText(common);
  const params = { path: { cluster_id: cluster.id } };
  const isAdded = cluster.kind !== 'local'; // This machine's cluster is made by the platform, and is not changed here.
  const enable = async (isEnabled: boolean) => {
    await take(api.PATCH('/api/v1/clusters/{cluster_id}', { params, body: { is_enabled: isEnabled } }));
    await queries.invalidateQueries({ queryKey: ['clusters'] });
    notify(t(isEnabled ? 'nowEnabled' : 'nowDisabled', { name: cluster.name }));
  };
  const lose = async () => {
    await take(api.PATCH('/api/v1/clusters/{cluster_id}', { params, body: { is_lost: true } }));
    await queries.invalidateQueries({ queryKey: ['clusters'] });
    notify(t('nowLost', { name: cluster.name }));
  };
  const canBeLost = isAdded && !cluster.is_enabled && !cluster.lost_at && cluster.condition.name !== 'reachable';
  const remove = async () => {
    await api.DELETE('/api/v1/clusters/{cluster_id}', { params });
    await Promise.all([queries.invalidateQueries({ queryKey: ['clusters'] }), queries.invalidateQueries({ queryKey: ['pools'] }), queries.invalidateQueries({ queryKey: ['nodes'] })]);
    notify(t('removed', { name: cluster.name }));
  };
  return (
    <Group gap="xs" mt="xs">
      <CheckButton cluster={cluster} />
      {isAdded && (
        <Dialog label={w('edit')} title={t('changeTitle', { name: cluster.name })} aria-label={`${w('edit')}: ${cluster.name}`} buttonSize="compact-sm" variant="default" size="lg">
          {(close) => <ClusterForm cluster={cluster} close={close} />}
        </Dialog>
      )}
      <Confirm key={String(cluster.is_enabled)} label={t(cluster.is_enabled ? 'disable' : 'enable')} title={t(cluster.is_enabled ? 'disableTitle' : 'enableTitle', { name: cluster.name })} aria-label={`${t(cluster.is_enabled ? 'disable' : 'enable')}: ${cluster.name}`} size="compact-sm" variant="default" act={() => enable(!cluster.is_enabled)}>
        {t(cluster.is_enabled ? 'disableHint' : 'enableHint')}
      </Confirm>
      {canBeLost && (
        <Confirm label={t('lose')} title={t('loseTitle', { name: cluster.name })} aria-label={`${t('lose')}: ${cluster.name}`} size="compact-sm" variant="subtle" color="red" act={lose}>
          {t('loseHint')}
        </Confirm>
      )}
      {isAdded && (
        <Confirm label={t('remove')} title={t('removeTitle', { name: cluster.name })} aria-label={`${t('remove')}: ${cluster.name}`} size="compact-sm" variant="subtle" color="red" act={remove}>
          {t('removeHint')}
        </Confirm>
      )}
    </Group>
  );
}
