/** How a template's last test run ended, as a sign for everybody; and, for whoever looks after it, the way to start one. */

import { Anchor, Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { notify } from '@/ui/notify';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { startTest, type Template } from './asking';
import { words } from './text';

const LOOK = {
  never: { icon: 'info', color: 'gray' },
  running: { icon: 'hourglass', color: 'blue' },
  passed: { icon: 'check', color: 'teal' },
  failed: { icon: 'cross', color: 'red' },
  outdated: { icon: 'refresh', color: 'orange' },
} as const;

export function TestMark({ row }: { row: Template }) {
  const t = useText(words);
  return <Mark {...LOOK[row.test.result]} label={t(`test_${row.test.result}`)} size="sm" />;
}

/** The sign with when, and the job for those who may see it. */
export function TestTold({ row }: { row: Template }) {
  const t = useText(words);
  return (
    <Group gap={6} component="span">
      <TestMark row={row} />
      {row.test.at && (
        <Text size="sm" span>
          <When at={row.test.at} />
        </Text>
      )}
      {row.test.job && (
        <Anchor component={Link} to={`/jobs/${row.test.job.id}`} size="sm">
          {t('testJob')}
        </Anchor>
      )}
    </Group>
  );
}

export function StartTest({ row }: { row: Template }) {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const tenants = session.who.tenants.filter((tenant) => session.may('member', tenant.slug));
  const own = tenants.find((tenant) => tenant.slug === row.tenant?.slug);
  const [tenant, setTenant] = useState((own ?? tenants[0])?.slug ?? '');
  if (!row.may_edit || tenants.length === 0) return null;
  return (
    <Confirm
      label={t('test')}
      title={t('testTitle', { name: row.name })}
      variant="default"
      disabled={row.test.result === 'running'}
      act={async () => {
        await startTest(row.id, tenant);
        notify(t('testStarted'));
      }}
    >
      <Stack>
        <Text>{t('testHint')}</Text>
        {!own && tenants.length > 1 && <NativeSelect label={c('tenant')} value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} data={tenants.map((entry) => ({ value: entry.slug, label: entry.name }))} />}
      </Stack>
    </Confirm>
  );
}
