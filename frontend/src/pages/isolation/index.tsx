/** Reports of the self-test that tries tenants against each other on this very installation. */

import { Stack, Table, Text } from '@mantine/core';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl } from '@/ui/CopyAs';
import { Empty } from '@/ui/Feedback';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { Elapsed, When } from '@/ui/Times';

import { words } from './text';

type Run = Schemas['SelfTestOut'];

const LOOK = {
  passed: { icon: 'check', color: 'teal' },
  failed: { icon: 'alert', color: 'red' },
  broken: { icon: 'alert', color: 'orange' },
  '': { icon: 'clock', color: 'blue' },
} as const;

export default function Isolation() {
  const t = useText(words);
  const runs = usePaged<Run>(['selftests'], (cursor) => take(api.GET('/api/v1/selftests', { params: { query: { limit: 50, cursor } } })));
  return (
    <Page title={t('title')} subtitle={t('subtitle')} actions={<CopyAs ways={{ curl: curl('GET', '/selftests'), python: 'import berth\n\nclient = berth.Client()\nfor run in client.request("GET", "/selftests")["items"]:\n    print(run["started_at"], run["verdict"], run["findings"])' }} />}>
      <PagedView
        list={runs}
        empty={
          <Empty icon="check" title={t('emptyTitle')} command="manage.py selftest_isolation">
            {t('emptyHint')}
          </Empty>
        }
      >
        {(rows) => (
          <SmallTable label={t('list')} head={[t('verdict'), t('started'), t('lasted'), t('requests'), t('findings')]} minWidth={720}>
            {rows.map((run) => (
              <RunRow key={run.id} run={run} />
            ))}
          </SmallTable>
        )}
      </PagedView>
    </Page>
  );
}

function RunRow({ run }: { run: Run }) {
  const t = useText(words);
  const format = useFormat();
  const look = LOOK[run.verdict];
  return (
    <Table.Tr style={{ verticalAlign: 'top' }}>
      <Table.Td>
        <Mark icon={look.icon} color={look.color} label={t(run.verdict === '' ? 'running' : run.verdict)} size="sm" />
      </Table.Td>
      <Table.Td>
        <When at={run.started_at} />
      </Table.Td>
      <Table.Td>{run.finished_at ? <Elapsed from={run.started_at} to={run.finished_at} /> : '–'}</Table.Td>
      <Table.Td>{format.number(run.requests)}</Table.Td>
      <Table.Td>
        <Stack gap={4}>
          {run.verdict === 'passed' && <Text size="sm">{t('nothingFound')}</Text>}
          {run.findings.map((finding, index) => (
            <Text key={index} size="sm" style={{ overflowWrap: 'anywhere' }}>
              {t('finding', { operation: finding.operation, by: t(finding.by), status: finding.status, problem: finding.problem })}
            </Text>
          ))}
          {run.detail && (
            <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
              {run.detail}
            </Text>
          )}
          {run.verdict !== '' && !run.removed && (
            <Text size="sm" c="dimmed">
              {t('leftBehind')}
            </Text>
          )}
        </Stack>
      </Table.Td>
    </Table.Tr>
  );
}
