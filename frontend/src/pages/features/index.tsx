/** Switches of the installation and of single tenants. */

import { Button, Group, Paper, SegmentedControl, Select, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { useTenantNames } from '@/api/fleet';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { common } from '@/text/common';
import { useLanguage, useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Answer, Empty } from '@/ui/Feedback';
import { notify, notifyProblem } from '@/ui/notify';
import { Page } from '@/ui/Page';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';
import { Window } from '@/ui/Window';

import { words } from './text';

type Feature = Schemas['FeatureOut'];
type Setting = 'on' | 'off' | 'inherit';

export default function Features() {
  const t = useText(words);
  const session = useSession();
  if (!session.isOperator) {
    return (
      <Page title={t('title')}>
        <Empty icon="features" title={t('forbidden')} />
      </Page>
    );
  }
  return <List />;
}

function List() {
  const t = useText(words);
  const [search, put] = useAddress();
  const tenant = search.get('tenant');
  const query = useQuery({ queryKey: ['features', 'of', tenant], queryFn: () => take(api.GET('/api/v1/features', { params: { query: { tenant: tenant ?? undefined } } })) });
  const tenants = useTenantNames();
  const choices = (tenants.data ?? []).map((found) => ({ value: found.slug, label: found.name }));
  const scope = choices.find((choice) => choice.value === tenant)?.label ?? tenant;
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <CopyAs
          ways={() => {
            const body = { enabled: false, ...(tenant ? { tenant } : {}) };
            return {
              curl: curl('PUT', '/features/terminal', body),
              python: `from berth import Client\n\nwith Client() as client:\n    client.request("PUT", "/features/terminal", json={"enabled": False${tenant ? `, "tenant": ${JSON.stringify(tenant)}` : ''}})`,
            };
          }}
        />
      }
    >
      <Select label={t('scope')} placeholder={t('installation')} maw={320} data={choices} value={tenant} onChange={(value) => put({ tenant: value })} clearable searchable />
      <Answer query={query}>
        {(found) => (
          <Stack component="ul" gap="sm" p={0} m={0} style={{ listStyle: 'none' }}>
            {found.items.map((feature) => (
              <li key={feature.name}>
                <One feature={feature} tenant={tenant} scope={scope} />
              </li>
            ))}
          </Stack>
        )}
      </Answer>
    </Page>
  );
}

function One({ feature, tenant, scope }: { feature: Feature; tenant: string | null; scope: string | null }) {
  const t = useText(words);
  const c = useText(common);
  const { language } = useLanguage();
  const [isAsking, setAsking] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const title = language === 'zh' ? feature.title_zh : feature.title;
  const isOn = tenant ? feature.enabled : feature.installation;
  const value: Setting = tenant && feature.setting === null ? 'inherit' : isOn ? 'on' : 'off';
  const means = `means_${feature.name}`;
  const set = async (setting: Setting) => {
    setBusy(true);
    try {
      await api.PUT('/api/v1/features/{name}', { params: { path: { name: feature.name } }, body: { enabled: setting === 'inherit' ? null : setting === 'on', tenant } });
      notify(t('saved', { name: title }));
    } catch (error) {
      notifyProblem(error);
    } finally {
      await queries.invalidateQueries({ queryKey: ['features'] });
      setBusy(false);
      setAsking(false);
    }
  };
  const options: Setting[] = tenant ? ['inherit', 'on', 'off'] : ['on', 'off'];
  return (
    <Paper withBorder p="md">
      <Group justify="space-between">
        <Stack gap={4} style={{ flex: '1 1 18rem' }}>
          <Group gap="xs">
            <Title order={2} size="h4">
              {title}
            </Title>
            {isOn ? <Mark icon="check" color="teal" label={t('nowOn')} /> : <Mark icon="stop" color="gray" label={t('nowOff')} />}
            {tenant && (
              <Text size="xs" c="dimmed">
                {t(feature.setting === null ? 'inherited' : 'own')}
              </Text>
            )}
          </Group>
          {means in words.en && (
            <Text size="sm" c="dimmed">
              <Said text={t(means as keyof typeof words.en)} />
            </Text>
          )}
        </Stack>
        <SegmentedControl
          aria-label={t('settingOf', { name: title })}
          disabled={isBusy}
          value={value}
          onChange={(chosen) => (chosen === 'off' ? setAsking(true) : void set(chosen as Setting))}
          data={options.map((option) => ({ value: option, label: t(option) }))}
        />
      </Group>
      <Window opened={isAsking} onClose={() => setAsking(false)} title={t('offTitle', { name: title })}>
        <Stack>
          <Text>{t('offHint', { scope: scope ?? t('allUsers') })}</Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={() => setAsking(false)}>
              {c('cancel')}
            </Button>
            <Button color="red" loading={isBusy} onClick={() => void set('off')} data-autofocus>
              {t('turnOff')}
            </Button>
          </Group>
        </Stack>
      </Window>
    </Paper>
  );
}
