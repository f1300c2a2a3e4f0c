/** What queues deserved and what came: the last days, or a week with its signature. */

import { Alert, Anchor, Code, Group, Select, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useSearchParams } from 'react-router';

import { api, take } from '@/api/client';
import { useSession } from '@/api/session';
import { gibHours, sayHours } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Mark } from '@/ui/Status';

import { json } from './json';
import { words } from './text';

interface Row {
  key: string;
  queueId: string | null;
  queue: string;
  pool: string;
  resource: string;
  deserved: number;
  requested: number;
  due: number;
  delivered: number;
  shortfall: number;
  fair: number;
  deficit: number;
}

export default function Shares() {
  const t = useText(words);
  const session = useSession();
  const [search, setSearch] = useSearchParams();
  const tenants = session.who.tenants;
  const tenant = tenants.find((one) => one.slug === search.get('tenant')) ?? tenants[0];
  const week = search.get('week') ?? '';
  const weeks = useQuery({
    queryKey: ['usage', 'weeks', tenant?.slug],
    enabled: tenant !== undefined,
    queryFn: ({ signal }) => take(api.GET('/api/v1/tenants/{tenant}/shares', { params: { path: { tenant: tenant?.slug ?? '' } }, signal })),
  });
  const set = (changes: { tenant?: string; week?: string }) => setSearch({ tab: 'shares', ...(tenant ? { tenant: tenant.slug } : {}), ...(week ? { week } : {}), ...changes }, { replace: true });
  const current = isoWeek(new Date());
  const choices = [current, ...(weeks.data?.items ?? []).map((one) => one.week).filter((one) => one !== current)];
  return (
    <Stack>
      <Text size="sm" c="dimmed">
        {t('sharesHint')}
      </Text>
      <Group align="flex-end">
        {tenants.length > 1 && week !== '' && <Select label={t('chooseTenant')} w={220} allowDeselect={false} searchable value={tenant?.slug ?? null} onChange={(value) => set({ tenant: value ?? '' })} data={tenants.map((one) => ({ value: one.slug, label: one.name }))} />}
        <Select label={t('weekOf')} w={220} allowDeselect={false} value={week} onChange={(value) => set({ week: value ?? '' })} data={[{ value: '', label: t('lastDays') }, ...choices.map((value) => ({ value, label: value }))]} />
        <Group ml="auto">
          <CopyAs
            ways={
              week && tenant
                ? { cli: `berth shares week ${week} -t ${quote(tenant.slug)}\nberth shares verify --help`, curl: curl('GET', `/tenants/${tenant.slug}/shares/${week}`), python: `import berth\n\nclient = berth.Client()\nprint(client.request("GET", "/tenants/${tenant.slug}/shares/${week}")["document"]["lines"])` }
                : { cli: 'berth shares show --since 7d', curl: curl('GET', '/shares'), python: 'import berth\n\nclient = berth.Client()\nfor row in client.request("GET", "/shares")["items"]:\n    print(row["queue"]["name"], row["deserved"], row["delivered"])' }
            }
          />
        </Group>
      </Group>
      {week && tenant ? <Week tenant={tenant.slug} tenantName={tenant.name} week={week} /> : <Latest />}
    </Stack>
  );
}

function Latest() {
  const shares = useQuery({ queryKey: ['usage', 'shares'], queryFn: async ({ signal }) => json(await take(api.GET('/api/v1/shares', { signal }))) });
  return (
    <Answer query={shares} lines={6}>
      {(answer) => (
        <Lines
          rows={answer.items.map((item) => ({ ...item, key: `${item.queue.id}${item.pool?.id}${item.resource}`, queueId: item.queue.id, queue: item.queue.name, pool: item.pool?.name ?? '–' }))}
        />
      )}
    </Answer>
  );
}

function Week({ tenant, tenantName, week }: { tenant: string; tenantName: string; week: string }) {
  const t = useText(words);
  const format = useFormat();
  const statement = useQuery({ queryKey: ['usage', 'week', tenant, week], queryFn: async ({ signal }) => json(await take(api.GET('/api/v1/tenants/{tenant}/shares/{week}', { params: { path: { tenant, week } }, signal }))) });
  return (
    <Answer query={statement} lines={6}>
      {(found) => (
        <>
          <Alert color={found.closed_at ? 'teal' : 'yellow'} icon={<Icon name={found.closed_at ? 'check' : 'clock'} />}>
            {found.closed_at ? t('statementClosed', { time: format.timeWithZone(found.closed_at) }) : t('weekOpen')}
          </Alert>
          <Lines rows={found.document.lines.map((line) => ({ ...line, deserved: line.promised, requested: line.wanted, key: `${line.pool}${line.resource}`, queueId: null, queue: tenantName, pool: found.names[line.pool] ?? line.pool }))} />
          <Text size="xs" c="dimmed" component="div">
            {t('signed', { algorithm: found.algorithm })} · {t('digest')}: <Code style={{ overflowWrap: 'anywhere' }}>{found.sha256}</Code>
          </Text>
        </>
      )}
    </Answer>
  );
}

function Lines({ rows }: { rows: readonly Row[] }) {
  const t = useText(words);
  const format = useFormat();
  if (rows.length === 0) return <Empty icon="usage" title={t('sharesNone')} command="berth shares show" />;
  const known = (resource: string) => resource === 'gpu_millis' || resource === 'cpu_millis' || resource === 'memory_bytes';
  return (
    <Table.ScrollContainer minWidth={820}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t('queue')}</Table.Th>
            <Table.Th>{t('pool')}</Table.Th>
            <Table.Th>{t('resource')}</Table.Th>
            {(['deserved', 'requested', 'due', 'delivered', 'shortfall', 'fair', 'deficit'] as const).map((name) => (
              <Table.Th key={name} ta="right">
                {t(name)}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => {
            const say = (value: number) => (row.resource === 'memory_bytes' ? format.number(gibHours(value), 2) : sayHours(format, value));
            return (
              <Table.Tr key={row.key}>
                <Table.Td>
                  {row.queueId ? (
                    <Anchor component={Link} to={`/queues/${row.queueId}`} size="sm">
                      {row.queue}
                    </Anchor>
                  ) : (
                    row.queue
                  )}
                </Table.Td>
                <Table.Td>{row.pool}</Table.Td>
                <Table.Td>{known(row.resource) ? t(row.resource as 'gpu_millis') : row.resource}</Table.Td>
                {(['deserved', 'requested', 'due', 'delivered'] as const).map((name) => (
                  <Table.Td key={name} ta="right">
                    {say(row[name])}
                  </Table.Td>
                ))}
                <Table.Td ta="right">{row.shortfall > 0 ? <Mark icon="alert" color="red" label={t('short', { n: say(row.shortfall) })} size="sm" /> : <Mark icon="check" color="teal" label={t('kept')} size="sm" />}</Table.Td>
                <Table.Td ta="right">{say(row.fair)}</Table.Td>
                <Table.Td ta="right">{row.deficit > 0 ? <Mark icon="alert" color="orange" label={say(row.deficit)} size="sm" /> : say(row.deficit)}</Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** `2026-W47`, by ISO 8601 in UTC. */
function isoWeek(at: Date): string {
  const day = new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()));
  day.setUTCDate(day.getUTCDate() + 4 - (day.getUTCDay() || 7)); // The Thursday of the week says which year it belongs to.
  const first = Date.UTC(day.getUTCFullYear(), 0, 1);
  return `${day.getUTCFullYear()}-W${String(Math.ceil(((day.getTime() - first) / 86_400_000 + 1) / 7)).padStart(2, '0')}`;
}
