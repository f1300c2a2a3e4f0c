/** How to work from a notebook: a token, and cells that run as they stand. */

import { Alert, Button, Checkbox, Code, Group, NativeSelect, Paper, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { useQueueNames } from '@/api/fleet';
import { useSession } from '@/api/session';
import { useText } from '@/text/language';
import { CopyText } from '@/ui/CopyAs';
import { save } from '@/ui/files';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Said } from '@/ui/Said';

import { CELLS, cell, notebook, type CellName, type Place } from './cells';
import classes from './Notebook.module.css';
import { words } from './text';
import { Token } from './Token';


export default function Notebook() {
  const t = useText(words);
  const session = useSession();
  const tenants = session.who.tenants;
  const members = tenants.filter((tenant) => session.may('member', tenant.slug));
  const offered = members.length > 0 ? members : tenants;
  const [tenant, setTenant] = useState(offered[0]?.slug ?? '');
  const [queue, setQueue] = useState('');
  const [gpu, setGpu] = useState(false);
  const [made, setMade] = useState<Schemas['NewTokenOut'] | null>(null);
  const [isInCell, setInCell] = useState(false);
  const queues = useQueueNames();
  const info = useQuery({ queryKey: ['info'], staleTime: 60_000, queryFn: () => take(api.GET('/api/v1/info')) });
  const mine = (queues.data ?? []).filter((entry) => entry.tenant?.slug === tenant);
  const chosen = tenants.find((entry) => entry.slug === tenant);
  const isOnly = tenants.filter((entry) => entry.name === chosen?.name).length === 1;
  const server = serverOf(info.data);
  const place: Place = { server, tenant: tenants.length > 1 && chosen ? (isOnly ? chosen.name : chosen.slug) : '', queue, gpu, token: made && isInCell ? made.token : '' };

  const download = () => save('berth-first-steps.ipynb', notebook(place, t('fileTitle'), (name) => t(name)), 'application/x-ipynb+json');
  return (
    <Page
      title={t('title')}
      subtitle={t('subtitle')}
      actions={
        <Button variant="default" leftSection={<Icon name="download" size={16} />} onClick={download}>
          {t('download')}
        </Button>
      }
    >
      {members.length === 0 && (
        <Alert color="blue" icon={<Icon name="info" />} title={t('noMember')}>
          {t('noMemberHint')}
        </Alert>
      )}
      <div className={classes.columns}>
        <Stack component="ol" m={0} p={0} gap="md" className={classes.cells}>
          {CELLS.map((name, index) => (
            <Cell key={name} name={name} number={index + 1} code={cell(name, place)} />
          ))}
        </Stack>
        <Stack className={classes.aside}>
          <Paper withBorder p="md" component="section" aria-label={t('forWhom')}>
            <Stack gap="sm">
              {offered.length > 1 && (
                <NativeSelect
                  label={t('tenant')}
                  value={tenant}
                  onChange={(event) => {
                    setTenant(event.currentTarget.value);
                    setQueue('');
                  }}
                  data={offered.map((entry) => ({ value: entry.slug, label: entry.name }))}
                />
              )}
              <NativeSelect
                label={t('queue')}
                value={queue}
                onChange={(event) => setQueue(event.currentTarget.value)}
                data={[{ value: '', label: t('queueDefault', { name: mine.find((entry) => entry.is_top)?.name ?? '–' }) }, ...mine.filter((entry) => !entry.is_top).map((entry) => ({ value: entry.name, label: entry.path }))]}
              />
              <Checkbox label={t('gpu')} checked={gpu} onChange={(event) => setGpu(event.currentTarget.checked)} />
            </Stack>
          </Paper>
          <Token made={made} setMade={setMade} isInCell={isInCell} setInCell={setInCell} />
        </Stack>
      </div>
    </Page>
  );
}

function Cell({ name, number, code }: { name: CellName; number: number; code: string }) {
  const t = useText(words);
  return (
    <Paper withBorder component="li" className={classes.cell} aria-label={t(name)}>
      <Group justify="space-between" wrap="nowrap" px="md" pt="sm" pb={6} align="flex-start">
        <div>
          <Text component="h2" fw={600} size="md">
            <Text span c="dimmed" inherit aria-hidden="true">
              [{number}]{' '}
            </Text>
            {t(name)}
          </Text>
          <Text size="sm" c="dimmed">
            <Said text={t(`${name}Hint`)} />
          </Text>
        </div>
        <CopyText text={code} label={t('copyCell')} />
      </Group>
      <Code block tabIndex={0} className={classes.code}>
        {code}
      </Code>
    </Paper>
  );
}

/** The address that the installation calls its own; where the page was opened, if that is the same machine by another name. */
function serverOf(info: Schemas['InfoOut'] | undefined): string {
  const url = info?.url ?? '';
  return url !== '' ? url : location.origin;
}
