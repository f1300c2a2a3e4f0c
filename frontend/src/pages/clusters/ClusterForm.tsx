/** Adding a cluster, or changing one: it is checked first, and what is wrong stands at its field. */

import { Button, FileButton, Group, Switch, TagsInput, Text, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';

import { api, take } from '@/api/client';
import type { Cluster } from '@/api/fleet';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Form, refuse } from '@/ui/Dialog';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';

import { Findings, type Check } from './Findings';
import { atInputs, changesOf, readSettings, writeSettings, type Config } from './settings';
import { words } from './text';

const FILE_BYTES_MAX = 256 * 1024; // As the server has it.

export function ClusterForm({ cluster, close }: { cluster?: Cluster; close: () => void }) {
  const t = useText(words);
  const w = useText(common);
  const [name, setName] = useState(cluster?.name ?? '');
  const [kubeconfig, setKubeconfig] = useState('');
  const [isOwn, setOwn] = useState(cluster?.access?.origin === 'pod');
  const [settings, setSettings] = useState(() => readSettings(cluster?.config));
  const [check, setCheck] = useState<Check | null>(null);
  const [isForced, setForced] = useState(false);
  const put = (changed: Partial<typeof settings>) => {
    setSettings({ ...settings, ...changed });
    setCheck(null);
  };
  const credentials = isOwn ? null : kubeconfig;
  const keepsCredentials = cluster !== undefined && (isOwn ? cluster.access?.origin === 'pod' : kubeconfig.trim() === '');

  const submit = async () => {
    const config = writeSettings(settings);
    refuse({
      '/name': name.trim() === '' && t('needsName'),
      '/credentials': !cluster && !isOwn && kubeconfig.trim() === '' && t('needsKubeconfig'),
      '/config': config === null && t('noMapping'),
      '/config/node_selector': settings.selector.some((entry) => entry.indexOf('=') < 1) && t('selectorWrong'),
    });
    try {
      await (cluster ? change(cluster, config ?? {}) : add(config ?? {}));
    } catch (error) {
      throw atInputs(error);
    }
  };
  const passes = (found: Check): boolean => {
    setCheck(found);
    return found.outcome !== 'failed' || isForced;
  };
  const add = async (config: Config) => {
    const body = { name: name.trim(), kind: 'kubernetes', config, credentials, is_enabled: true };
    if (!passes(await take(api.POST('/api/v1/clusters:check', { body })))) return;
    await take(api.POST('/api/v1/clusters', { body }));
    await done(t('added', { name: body.name }));
  };
  const change = async (before: Cluster, config: Config) => {
    const changed = changesOf(before.config, config);
    const body = {
      ...(name.trim() === before.name ? {} : { name: name.trim() }),
      ...(Object.keys(changed).length === 0 ? {} : { config: changed }),
      ...(keepsCredentials ? {} : { credentials }),
    };
    const params = { path: { cluster_id: before.id } };
    const isOfEngine = 'config' in body || 'credentials' in body;
    if (isOfEngine && !passes(await take(api.POST('/api/v1/clusters/{cluster_id}/check', { params, body })))) return;
    await take(api.PATCH('/api/v1/clusters/{cluster_id}', { params: { ...params, header: { 'If-Match': `"${before.version}"` } }, body }));
    await done(t('clusterChanged', { name: name.trim() }));
  };
  const done = async (said: string) => {
    await queries.invalidateQueries({ queryKey: ['clusters'] });
    notify(said);
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={t(cluster ? 'checkAndSave' : 'checkAndAdd')}>
      {(at) => (
        <>
          <TextInput label={w('name')} value={name} maxLength={63} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} spellCheck={false} autoComplete="off" required />
          <Textarea
            label={t('kubeconfig')}
            description={t(cluster ? 'kubeconfigKept' : 'kubeconfigHint')}
            value={kubeconfig}
            onChange={(event) => {
              setKubeconfig(event.currentTarget.value);
              setCheck(null);
            }}
            error={at('/credentials')}
            disabled={isOwn}
            autosize
            minRows={4}
            maxRows={10}
            autoComplete="off"
            spellCheck={false}
            required={!cluster && !isOwn}
            styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: 'var(--mantine-font-size-xs)' } }}
          />
          <Group justify="space-between">
            <FileButton
              onChange={(file) => {
                if (file && file.size <= FILE_BYTES_MAX)
                  void file.text().then((text) => {
                    setKubeconfig(text);
                    setCheck(null);
                  });
              }}
            >
              {(button) => (
                <Button {...button} variant="default" size="compact-sm" disabled={isOwn} leftSection={<Icon name="data" size={14} />}>
                  {t('chooseFile')}
                </Button>
              )}
            </FileButton>
            <Switch label={t('ownPod')} checked={isOwn} onChange={(event) => setOwn(event.currentTarget.checked)} />
          </Group>
          <TextInput label={t('image')} description={t('imageHint')} value={settings.image} onChange={(event) => put({ image: event.currentTarget.value })} error={at('/config/default_image')} spellCheck={false} autoComplete="off" />
          <TagsInput label={t('selector')} description={t('selectorHint')} placeholder={settings.selector.length === 0 ? 'team=research' : undefined} value={settings.selector} onChange={(selector) => put({ selector })} error={at('/config/node_selector')} />
          <TextInput label={t('prefix')} description={t('prefixHint')} placeholder="berth" value={settings.prefix} onChange={(event) => put({ prefix: event.currentTarget.value })} error={at('/config/namespace_prefix')} spellCheck={false} autoComplete="off" />
          <Textarea label={t('other')} description={t('otherHint')} placeholder="pod_addresses: true" value={settings.other} onChange={(event) => put({ other: event.currentTarget.value })} error={at('/config')} autosize minRows={2} maxRows={8} spellCheck={false} styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: 'var(--mantine-font-size-xs)' } }} />
          {check && <Findings check={check} />}
          {check?.outcome === 'failed' && <Switch label={t(cluster ? 'saveAnyway' : 'addAnyway')} checked={isForced} onChange={(event) => setForced(event.currentTarget.checked)} />}
          {!check && (
            <Text size="sm" c="dimmed">
              {t('checkedFirst')}
            </Text>
          )}
        </>
      )}
    </Form>
  );
}
