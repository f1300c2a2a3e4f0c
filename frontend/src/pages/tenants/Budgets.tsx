/** What the tenant's queues may spend in a month, and how far they are. */

import { Group, Select, Stack, Switch, Table, TagsInput, Text, TextInput } from '@mantine/core';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { BUDGET_UNITS, budgetColor, sayBudget } from '@/text/costs';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Dialog, Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Meter } from '@/ui/Meter';
import { PagedView } from '@/ui/PagedView';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';

import type { Part } from './Tenant';
import { words } from './text';

type Budget = Schemas['BudgetOut'];
type Queue = Schemas['QueueOut'];
const KINDS = ['money', 'gpu_time', 'node_time'] as const;
type Kind = (typeof KINDS)[number];

export default function Budgets({ tenant }: Part) {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const session = useSession();
  const list = usePaged<Budget>(['tenant', tenant.slug, 'budgets'], (cursor) => take(api.GET('/api/v1/budgets', { params: { query: { tenant: tenant.slug, limit: 200, cursor } } })));
  const queues = usePaged<Queue>(['queues', 'of', tenant.slug], (cursor) => take(api.GET('/api/v1/queues', { params: { query: { tenant: tenant.slug, limit: 500, cursor } } })));
  // A queue's budget is set by whoever manages the queue above it: a tenant's own top queue by operators and the tenant above.
  const mayTop = session.isOperator || (tenant.parent !== null && session.may('manager', tenant.parent.slug));
  const settable = (queues.rows ?? []).filter((queue) => (queue.is_top ? mayTop : tenant.role === 'manager' || session.isOperator));
  const amount = (budget: Budget, value: number) => sayBudget(format, c, budget, value);
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed">{t('budgetsHint')}</Text>
        {settable.length > 0 && (
          <Dialog label={t('newBudget')} title={t('newBudget')} leftSection={<Icon name="submit" size={16} />}>
            {(close) => <BudgetForm tenant={tenant.slug} queues={settable} close={close} />}
          </Dialog>
        )}
      </Group>
      <PagedView list={list} empty={<Empty icon="prices" title={t('noBudgets')}>{t('noBudgetsHint')}</Empty>}>
        {(rows) => (
          <SmallTable label={t('budgets')} head={[c('queue'), t('spent', { month: rows[0]?.month ?? '' }), c('state'), c('actions')]}>
            {rows.map((budget) => {
              const queue = settable.find((found) => found.id === budget.queue.id);
              return (
                <Table.Tr key={budget.queue.id}>
                  <Table.Td>{budget.queue.name}</Table.Td>
                  <Table.Td miw={260}>
                    <Meter
                      label={t(budget.kind)}
                      total={budget.amount}
                      words={t('spentOf', { spent: amount(budget, budget.spent), amount: amount(budget, budget.amount), percent: budget.percent })}
                      parts={[{ value: budget.spent, label: amount(budget, budget.spent), color: budgetColor(budget.percent) }]}
                    />
                  </Table.Td>
                  <Table.Td>{budget.stops ? <Mark icon="stop" color="orange" label={t('holds')} /> : <Mark icon="info" color="gray" label={t('onlyWarns')} />}</Table.Td>
                  <Table.Td>
                    {queue && (
                      <Group gap={4} wrap="nowrap">
                        <Dialog label={c('edit')} title={t('newBudget')} aria-label={`${c('edit')}: ${budget.queue.name}`} variant="subtle" buttonSize="compact-sm">
                          {(close) => <BudgetForm tenant={tenant.slug} queues={[queue]} budget={budget} close={close} />}
                        </Dialog>
                        <Confirm
                          label={c('delete')}
                          aria-label={t('deleteBudget', { name: budget.queue.name })}
                          title={t('deleteBudget', { name: budget.queue.name })}
                          size="compact-sm"
                          variant="subtle"
                          color="red"
                          act={async () => {
                            await api.DELETE('/api/v1/queues/{queue_id}/budget', { params: { path: { queue_id: budget.queue.id } } });
                            await queries.invalidateQueries({ queryKey: ['tenant', tenant.slug, 'budgets'] });
                          }}
                        />
                      </Group>
                    )}
                  </Table.Td>
                </Table.Tr>
              );
            })}
          </SmallTable>
        )}
      </PagedView>
    </Stack>
  );
}

function BudgetForm({ tenant, queues: choices, budget, close }: { tenant: string; queues: readonly Queue[]; budget?: Budget; close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [queue, setQueue] = useState<string | null>(choices[0]?.id ?? null);
  const [kind, setKind] = useState<Kind>(budget?.kind ?? 'gpu_time');
  const [amount, setAmount] = useState(budget ? String(budget.amount / BUDGET_UNITS[budget.kind]) : '');
  const [stops, setStops] = useState(budget?.stops ?? false);
  const [warn, setWarn] = useState<string[]>((budget?.warn_at ?? [80, 100]).map(String));
  const value = Number(amount.replace(',', '.'));
  const isNumber = amount.trim() !== '' && Number.isFinite(value) && value >= 0;
  const submit = async () => {
    await api.PUT('/api/v1/queues/{queue_id}/budget', { params: { path: { queue_id: queue ?? '' } }, body: { kind, amount: Math.round(value * BUDGET_UNITS[kind]), stops, warn_at: warn.map(Number) } });
    await queries.invalidateQueries({ queryKey: ['tenant', tenant, 'budgets'] });
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={c('save')} isReady={isNumber && queue !== null}>
      {(at) => (
        <>
          <Select label={c('queue')} data={choices.map((found) => ({ value: found.id, label: found.path }))} value={queue} onChange={setQueue} allowDeselect={false} />
          <Select label={t('kind')} data={KINDS.map((name) => ({ value: name, label: t(name) }))} value={kind} onChange={(found) => found && setKind(found as Kind)} allowDeselect={false} error={at('/kind')} />
          <TextInput label={t('amount')} inputMode="decimal" value={amount} onChange={(event) => setAmount(event.currentTarget.value)} error={amount && !isNumber ? t('notNumber') : at('/amount')} required data-autofocus />
          <Switch label={t('stops')} checked={stops} onChange={(event) => setStops(event.currentTarget.checked)} />
          <TagsInput label={t('warnAt')} description={t('warnHint')} value={warn} onChange={(values) => setWarn(values.filter((each) => /^\d{1,3}$/.test(each)))} error={at('/warn_at')} />
        </>
      )}
    </Form>
  );
}
