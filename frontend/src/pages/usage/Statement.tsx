/** A tenant's month on one sheet, made to be printed. */

import { Alert, Anchor, Button, Code, Group, SimpleGrid, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { gibHours, sayHours, sayMoney, sayPrice } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Answer } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';

import { json } from './json';
import { words } from './text';

const FATES = ['useful', 'failed', 'retried', 'evicted', 'stopped'] as const;

export default function Statement() {
  const t = useText(words);
  const { tenant = '', month = '' } = useParams();
  const path = `/api/v1/tenants/${encodeURIComponent(tenant)}/statements/${encodeURIComponent(month)}`;
  const statement = useQuery({ queryKey: ['usage', 'statement', tenant, month], queryFn: async ({ signal }) => json(await take(api.GET('/api/v1/tenants/{tenant}/statements/{month}', { params: { path: { tenant, month } }, signal }))) });
  const name = statement.data?.tenant.name ?? tenant;
  return (
    <Page
      title={t('statement', { tenant: name, month })}
      subtitle={
        <Anchor component={Link} to={`/usage?tab=statements&tenant=${tenant}`} size="sm" className="berth-no-print">
          ‹ {t('backToUsage')}
        </Anchor>
      }
      actions={statement.data && (
        <Group gap="xs" className="berth-no-print">
          <Button variant="default" onClick={() => window.print()}>
            {t('print')}
          </Button>
          <Button component="a" href={`${path}?format=csv`} download={`${month}.csv`} variant="default" leftSection={<Icon name="download" size={16} />}>
            CSV
          </Button>
          <CopyAs ways={{ cli: `berth statement ${month} -t ${quote(tenant)} --verify`, curl: curl('GET', `/tenants/${tenant}/statements/${month}`), python: `import berth\n\nclient = berth.Client()\nprint(client.request("GET", "/tenants/${tenant}/statements/${month}")["document"]["totals"])` }} />
        </Group>
      )}
    >
      <Answer query={statement} lines={10}>
        {(found) => <Sheet statement={found} path={path} />}
      </Answer>
    </Page>
  );
}

function Sheet({ statement, path }: { statement: Schemas['StatementOut']; path: string }) {
  const t = useText(words);
  const format = useFormat();
  const { document, names } = statement;
  const { totals } = document;
  const isBilled = totals.micros > 0 || document.prices.length > 0;
  const say = (id: string) => names[id] ?? id;
  const money = (micros: number) => sayMoney(format, micros, document.currency);
  return (
    <>
      <Alert color={statement.closed_at ? 'teal' : 'yellow'} icon={<Icon name={statement.closed_at ? 'check' : 'clock'} />}>
        {statement.closed_at ? t('statementClosed', { time: format.timeWithZone(statement.closed_at) }) : t('statementOpen')}
      </Alert>
      <SimpleGrid cols={{ base: 2, sm: 4 }}>
        {[
          [t('gpuHours'), sayHours(format, totals.gpu_milli_seconds)],
          [t('coreHours'), sayHours(format, totals.cpu_milli_seconds)],
          [t('memoryHours'), format.number(gibHours(totals.memory_byte_seconds), 2)],
          isBilled ? [t('cost'), money(totals.micros)] : [t('attempts'), format.number(totals.attempts)],
        ].map(([label, value]) => (
          <div key={label}>
            <Text size="sm" c="dimmed">
              {label}
            </Text>
            <Text size="xl" fw={650}>
              {value}
            </Text>
          </div>
        ))}
      </SimpleGrid>
      <section aria-labelledby="by-fate">
        <Title order={2} size="h5" id="by-fate" mb="xs">
          {t('fate')}
        </Title>
        <Table maw={560}>
          <Table.Tbody>
            {FATES.map((fate) => (
              <Table.Tr key={fate}>
                <Table.Td>{t(fate)}</Table.Td>
                <Table.Td ta="right">
                  {sayHours(format, totals.gpu_milli_seconds_by_fate[fate] ?? 0)} {t('gpuHours')}
                </Table.Td>
                {isBilled && <Table.Td ta="right">{money(totals.micros_by_fate[fate] ?? 0)}</Table.Td>}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </section>
      {document.prices.length > 0 && (
        <section aria-labelledby="prices">
          <Title order={2} size="h5" id="prices" mb="xs">
            {t('prices')}
          </Title>
          <Table maw={560}>
            <Table.Tbody>
              {document.prices.map((price) => (
                <Table.Tr key={`${price.pool}${price.resource}${price.since}`}>
                  <Table.Td>{say(price.pool)}</Table.Td>
                  <Table.Td>{price.resource === 'gpu_millis' || price.resource === 'cpu_millis' || price.resource === 'memory_bytes' ? t(price.resource) : price.resource}</Table.Td>
                  <Table.Td ta="right">{t('pricePer', { price: sayPrice(format, price.micros_per_hour, document.currency) })}</Table.Td>
                  <Table.Td>{t('priceSince', { time: format.time(new Date(price.since * 1000).toISOString()) })}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </section>
      )}
      <section aria-labelledby="lines">
        <Title order={2} size="h5" id="lines" mb="xs">
          {t('lines')}
        </Title>
        <Table.ScrollContainer minWidth={760}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t('usedIn')}</Table.Th>
                <Table.Th>{t('pool')}</Table.Th>
                <Table.Th>{t('queue')}</Table.Th>
                <Table.Th>{t('user')}</Table.Th>
                <Table.Th>{t('fate')}</Table.Th>
                <Table.Th ta="right">{t('attempts')}</Table.Th>
                <Table.Th ta="right">{t('gpuHours')}</Table.Th>
                <Table.Th ta="right">{t('coreHours')}</Table.Th>
                {isBilled && <Table.Th ta="right">{t('cost')}</Table.Th>}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {document.lines.map((line) => (
                <Table.Tr key={`${line.used_in}${line.pool}${line.queue}${line.user}${line.fate}`}>
                  <Table.Td>{line.used_in}</Table.Td>
                  <Table.Td>{say(line.pool)}</Table.Td>
                  <Table.Td>{say(line.queue)}</Table.Td>
                  <Table.Td>{say(line.user)}</Table.Td>
                  <Table.Td>{t(line.fate)}</Table.Td>
                  <Table.Td ta="right">{format.number(line.attempts)}</Table.Td>
                  <Table.Td ta="right">{sayHours(format, line.gpu_milli_seconds)}</Table.Td>
                  <Table.Td ta="right">{sayHours(format, line.cpu_milli_seconds)}</Table.Td>
                  {isBilled && <Table.Td ta="right">{money(line.micros)}</Table.Td>}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </section>
      <Text size="xs" c="dimmed" component="div">
        {t('digest')}: <Code style={{ overflowWrap: 'anywhere' }}>{statement.sha256}</Code>{' '}
        <Anchor href={`${path}?format=canonical`} download underline="always" size="xs" className="berth-no-print">
          {t('canonical')}
        </Anchor>
      </Text>
    </>
  );
}
