/** What one is told, how, and whether the messages arrived. */

import { Alert, Button, Checkbox, Group, Paper, Select, Stack, Table, Text, TextInput, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type ChangeEvent, type ReactNode } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useLanguage, useText, type Language } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Form, type At } from '@/ui/Dialog';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify, notifyProblem } from '@/ui/notify';
import { PasswordField } from '@/ui/PasswordField';
import { Secret } from '@/ui/Secret';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';
import { Window } from '@/ui/Window';

import { useDeed } from './deed';
import { words } from './text';

type Subscription = Schemas['SubscriptionOut'];
type Channel = Schemas['ChannelOut'];
const TARGET = 'target'; // The field that stands at the top of a body; all others are in its `settings`.
const KEY = ['subscriptions'] as const;
const DELIVERIES = ['deliveries'] as const;
const KINDS = ['succeeded', 'failed', 'stopped', 'running', 'retried', 'limit', 'budget', 'priority', 'capacity'] as const;
type Kind = (typeof KINDS)[number];
const isKind = (text: string): text is Kind => (KINDS as readonly string[]).includes(text);

/** The channels of this installation, each with its form: a new one needs nothing here. */
const useChannels = () => useQuery({ queryKey: ['notification-channels'], queryFn: () => take(api.GET('/api/v1/notification-channels')) });

export default function Notifications() {
  const t = useText(words);
  const subscriptions = useQuery({ queryKey: KEY, refetchInterval: 15_000, queryFn: () => take(api.GET('/api/v1/subscriptions', { params: { query: { limit: 100 } } })) });
  const [editing, setEditing] = useState<Subscription | 'new' | null>(null);
  const add = (
    <Button leftSection={<Icon name="submit" size={16} />} aria-haspopup="dialog" onClick={() => setEditing('new')}>
      {t('addNotification')}
    </Button>
  );
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed" size="sm">
          {t('notificationsText')}
        </Text>
        {(subscriptions.data?.items.length ?? 0) > 0 && add}
      </Group>
      <Answer query={subscriptions}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty icon="announcements" title={t('notificationsNone')} action={add} command="berth notify --help">
              {t('notificationsNoneHint')}
            </Empty>
          ) : (
            <Stack gap="sm">
              {page.items.map((subscription) => (
                <One key={subscription.id} subscription={subscription} edit={() => setEditing(subscription)} />
              ))}
            </Stack>
          )
        }
      </Answer>
      {(subscriptions.data?.items.length ?? 0) > 0 && <Deliveries />}
      {editing && <Edit subscription={editing === 'new' ? null : editing} close={() => setEditing(null)} />}
    </Stack>
  );
}

function One({ subscription, edit }: { subscription: Subscription; edit: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const { who } = useSession();
  const { language } = useLanguage();
  const channel = useChannels().data?.items.find((each) => each.kind === subscription.channel);
  const cache = useQueryClient();
  const { isBusy, run } = useDeed();
  const path = { subscription: subscription.id };
  const again = () => cache.invalidateQueries({ queryKey: KEY });
  const toggle = () =>
    run(async () => {
      await take(api.PATCH('/api/v1/subscriptions/{subscription}', { params: { path }, body: { is_active: !subscription.is_active } }));
      await again();
    });
  const test = async () => {
    try {
      await take(api.POST('/api/v1/subscriptions/{subscription}/test', { params: { path } }));
      notify(t('testSent'));
      await cache.invalidateQueries({ queryKey: DELIVERIES });
    } catch (error) {
      notifyProblem(error);
    }
  };
  const remove = async () => {
    await take(api.DELETE('/api/v1/subscriptions/{subscription}', { params: { path } }));
    await again();
  };
  const tenant = who.tenants.find((each) => each.id === subscription.tenant_id);
  return (
    <Paper withBorder p="md">
      <Group justify="space-between" align="flex-start">
        <Stack gap={4} style={{ minWidth: 0, flex: '1 1 18rem' }}>
          <Group gap="xs">
            <Text fw={600}>{channel ? channel.words[language] : subscription.channel}</Text>
            {!subscription.is_active && <Mark icon="pause" color="gray" label={t('paused')} size="sm" />}
            <Text size="sm" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
              {t('toYou', { address: subscription.target || who.user.email })}
            </Text>
          </Group>
          <Text size="sm">{subscription.kinds.map((kind) => (isKind(kind) ? t(`kind_${kind}`) : kind)).join(', ')}</Text>
          {subscription.problem && <Trouble color="orange" text={channel?.problem ? channel.problem.words[language] : t('notOffered')} />}
          {subscription.last_failure && (
            <Trouble color="red" text={t('lastFailed', { error: subscription.last_failure.error })}>
              <When at={subscription.last_failure.at} />
            </Trouble>
          )}
          <Text size="sm" c="dimmed">
            {t(subscription.jobs === 'all' ? 'all' : 'mine')} · <bdi>{tenant ? tenant.name : t('anyTenant')}</bdi>
          </Text>
        </Stack>
        <Group gap="xs">
          <Button size="xs" variant="default" onClick={() => void test()} disabled={!subscription.is_active}>
            {t('test')}
          </Button>
          <Button size="xs" variant="default" aria-haspopup="dialog" onClick={edit}>
            {t('editNotification')}
          </Button>
          <Button size="xs" variant="default" loading={isBusy} onClick={() => void toggle()}>
            {t(subscription.is_active ? 'pause' : 'resume')}
          </Button>
          <Confirm label={c('delete')} title={c('delete')} size="xs" color="red" variant="subtle" act={remove}>
            {t('deleteAsk')}
          </Confirm>
        </Group>
      </Group>
    </Paper>
  );
}

function Trouble({ color, text, children }: { color: string; text: string; children?: ReactNode }) {
  return (
    <Group gap="xs" wrap="nowrap" align="flex-start">
      <Text span c={color} mt={2}>
        <Icon name="alert" size={16} />
      </Text>
      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
        {text} {children}
      </Text>
    </Group>
  );
}

interface Typed {
  values: Readonly<Record<string, string>>;
  set: (name: string, value: string) => void;
}

/**
 * The fields of a channel. What was not typed is as the subscription has it. No component: the form has to see in its own turn
 * which places have a field, or it tells what is wrong there a second time.
 */
function fieldsOf(channel: Channel, subscription: Subscription | null, typed: Typed, at: At, language: Language, keptSecret: string) {
  return channel.inputs.map((input) => {
    const kept = input.name === TARGET ? subscription?.target : subscription?.settings[input.name];
    const shared = {
      label: input.words[language],
      description: input.hint[language],
      placeholder: kept === null ? keptSecret : input.example,
      value: typed.values[input.name] ?? kept ?? '',
      onChange: (event: ChangeEvent<HTMLInputElement>) => typed.set(input.name, event.currentTarget.value),
      error: at(input.name === TARGET ? '/target' : `/settings/${input.name}`),
      required: input.is_required && kept !== null,
      autoComplete: 'off',
    };
    return input.is_secret ? <PasswordField key={input.name} {...shared} /> : <TextInput key={input.name} {...shared} />;
  });
}

function Edit({ subscription, close }: { subscription: Subscription | null; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const { who, has } = useSession();
  const { language } = useLanguage();
  const cache = useQueryClient();
  const channels = useChannels();
  const [kind, setKind] = useState(subscription?.channel ?? null);
  const [typed, setTyped] = useState<Record<string, string>>({});
  const items = channels.data?.items ?? [];
  const channel = items.find((each) => each.kind === kind) ?? (subscription ? undefined : items[0]);
  const [kinds, setKinds] = useState<Kind[]>(subscription ? subscription.kinds.filter(isKind) : ['succeeded', 'failed']);
  const [jobs, setJobs] = useState<'mine' | 'all'>(subscription?.jobs === 'all' ? 'all' : 'mine');
  const [tenant, setTenant] = useState<string | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const save = async () => {
    const { [TARGET]: target, ...settings } = Object.fromEntries(Object.entries(typed).map(([name, value]) => [name, value.trim()]));
    const fields = { ...(target === undefined ? {} : { target }), ...(Object.keys(settings).length > 0 ? { settings } : {}) };
    const made = subscription
      ? await take(api.PATCH('/api/v1/subscriptions/{subscription}', { params: { path: { subscription: subscription.id } }, body: { kinds, jobs, ...fields } }))
      : await take(api.POST('/api/v1/subscriptions', { body: { channel: channel?.kind ?? '', kinds, jobs, tenant, ...fields, target: target ?? '' } }));
    const shown = made.secret ?? null;
    void cache.invalidateQueries({ queryKey: KEY });
    if (made.problem) notify(channel?.problem?.words[language] ?? t('notOffered'), 'failed');
    if (shown) setSecret(shown);
    else close();
  };
  return (
    <Window onClose={close} title={secret ? t('webhookSecret') : t(subscription ? 'editNotification' : 'addNotification')} closeOnClickOutside={!secret}>
      {secret ? (
        <Stack>
          <Alert color="yellow" icon={<Icon name="alert" />}>
            {t('webhookSecretText')}
          </Alert>
          <Secret text={secret} />
          <Group justify="flex-end">
            <Button onClick={close}>{c('close')}</Button>
          </Group>
        </Stack>
      ) : (
        <Form submit={save} onCancel={close} label={c('save')} isReady={kinds.length > 0 && channels.isSuccess}>
          {(at) => (
            <>
              {!subscription && (
                <Select
                  label={t('channel')}
                  allowDeselect={false}
                  data={items.map((each) => ({ value: each.kind, label: each.words[language] }))}
                  value={channel?.kind ?? null}
                  onChange={(value) => {
                    setKind(value);
                    setTyped({});
                  }}
                  error={at('/channel')}
                />
              )}
              {channel?.problem && <Trouble color="orange" text={channel.problem.words[language]} />}
              {channel && fieldsOf(channel, subscription, { values: typed, set: (name, value) => setTyped((before) => ({ ...before, [name]: value })) }, at, language, t('keptSecret'))}
              <Checkbox.Group label={t('kinds')} value={kinds} onChange={(values) => setKinds(KINDS.filter((kind) => values.includes(kind)))} error={at('/kinds')}>
                <Stack gap={6} mt={6}>
                  {KINDS.filter((kind) => kind !== 'budget' || has('billing')).map((kind) => (
                    <Checkbox key={kind} value={kind} label={t(`kind_${kind}`)} />
                  ))}
                </Stack>
              </Checkbox.Group>
              <Select label={t('whose')} allowDeselect={false} data={[{ value: 'mine', label: t('mine') }, { value: 'all', label: t('all') }]} value={jobs} onChange={(value) => setJobs(value === 'all' ? 'all' : 'mine')} error={at('/jobs')} />
              {!subscription && <Select label={t('inTenant')} placeholder={t('anyTenant')} clearable data={who.tenants.map((each) => ({ value: each.slug, label: each.name }))} value={tenant} onChange={setTenant} error={at('/tenant')} />}
            </>
          )}
        </Form>
      )}
    </Window>
  );
}

const LOOK = {
  pending: { icon: 'hourglass', color: 'yellow' },
  sent: { icon: 'check', color: 'teal' },
  failed: { icon: 'cross', color: 'red' },
} as const;

function Deliveries() {
  const t = useText(words);
  const c = useText(common);
  const cache = useQueryClient();
  const deliveries = useQuery({ queryKey: DELIVERIES, refetchInterval: 15_000, queryFn: () => take(api.GET('/api/v1/deliveries', { params: { query: { limit: 20 } } })) });
  const retry = async (delivery: string) => {
    try {
      await take(api.POST('/api/v1/deliveries/{delivery}/retry', { params: { path: { delivery } } }));
      await cache.invalidateQueries({ queryKey: DELIVERIES });
    } catch (error) {
      notifyProblem(error);
    }
  };
  return (
    <Stack gap="xs" component="section" aria-label={t('deliveries')}>
      <Title order={2} size="h5">
        {t('deliveries')}
      </Title>
      <Answer query={deliveries} lines={3}>
        {(page) =>
          page.items.length === 0 ? (
            <Text size="sm" c="dimmed">
              {t('deliveriesNone')}
            </Text>
          ) : (
            <SmallTable label={t('deliveries')} head={[t('when'), t('what'), c('state'), '']} minWidth={560}>
              {page.items.map((delivery) => (
                <Table.Tr key={delivery.id}>
                  <Table.Td>
                    <When at={delivery.created_at} />
                  </Table.Td>
                  <Table.Td>{delivery.seq === null ? t('test') : isKind(delivery.kind) ? t(`kind_${delivery.kind}`) : delivery.kind}</Table.Td>
                  <Table.Td>
                    <Group gap="xs">
                      <Mark {...LOOK[delivery.state]} label={t(delivery.state)} size="sm" />
                      {delivery.last_error && delivery.state !== 'sent' && (
                        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                          {t('tries', { count: delivery.tries })}: {delivery.last_error}
                        </Text>
                      )}
                    </Group>
                  </Table.Td>
                  <Table.Td ta="right">
                    {delivery.state === 'failed' && (
                      <Button size="compact-xs" variant="default" onClick={() => void retry(delivery.id)}>
                        {t('again_send')}
                      </Button>
                    )}
                  </Table.Td>
                </Table.Tr>
              ))}
            </SmallTable>
          )
        }
      </Answer>
    </Stack>
  );
}
