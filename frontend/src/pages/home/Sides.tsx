/** What is free, what one's tenants got of what they deserved, and what is left of the money. */

import { Alert, Group, Stack, Text } from '@mantine/core';

import type { Schemas } from '@/api/client';
import { usePools } from '@/api/fleet';
import { common } from '@/text/common';
import { budgetColor, sayBudget, sayHours } from '@/text/costs';
import { useFormat, type Format } from '@/text/format';
import { isolate } from '@/text/isolate';
import { useText, type Translate } from '@/text/language';
import { Answer } from '@/ui/Feedback';
import { Meter } from '@/ui/Meter';

import { Card } from './Card';
import { useBudgets, useShares } from './reads';
import { words } from './text';

const SHARES_SHOWN = 6;
const POOLS_EVERY_MS = 30_000;

export function Free() {
  const t = useText(words);
  const pools = usePools(POOLS_EVERY_MS);
  return (
    <Card title={t('free')} to="/cluster" more={t('seeAll')}>
      <Answer query={pools}>
        {(all) =>
          all.length === 0 ? (
            <Text size="sm" c="dimmed">
              {t('noPools')}
            </Text>
          ) : (
            <Stack gap="md">
              {all.map((pool) => (
                <Pool key={pool.id} pool={pool} />
              ))}
            </Stack>
          )
        }
      </Answer>
    </Card>
  );
}

function Pool({ pool }: { pool: Schemas['PoolOut'] }) {
  const t = useText(words);
  const format = useFormat();
  const isGpu = pool.capacity.gpu_millis > 0;
  const [total, used] = isGpu ? [pool.capacity.gpu_millis, pool.allocated.gpu_millis] : [pool.capacity.cpu_millis, pool.allocated.cpu_millis];
  const free = Math.max(0, total - used);
  const models = Object.values(pool.use.idle?.models ?? {});
  const task = Math.max(0, ...models.map((model) => model.largest_task));
  const job = Math.max(0, ...models.map((model) => model.largest_job));
  const away = pool.node_count - pool.nodes_available;
  return (
    <Stack gap={4}>
      <Meter
        label={`${pool.name}${pool.gpu_model ? ` · ${pool.gpu_model}` : ''}${pool.gpus_simulated ? ` (${t('simulated')})` : ''}`}
        total={total}
        words={t(isGpu ? 'freeGpus' : 'freeCores', { free: format.milli(free), total: format.milli(total) })}
        parts={[{ value: used, label: format.milli(used), color: free === 0 ? 'orange' : 'berth' }]}
      />
      {isGpu && models.length > 0 && free > 0 && (
        <Text size="xs" c="dimmed">
          {t('largest', { job, task })}
        </Text>
      )}
      {away > 0 && (
        <Text size="xs" c="dimmed">
          {t('nodesAway', { away, count: pool.node_count })}
        </Text>
      )}
    </Stack>
  );
}

export function Shares() {
  const t = useText(words);
  const format = useFormat();
  const shares = useShares();
  return (
    <Card title={t('share')} to="/usage?tab=shares" more={t('detail')}>
      <Answer query={shares}>
        {(items) => {
          const tops = items.filter((share) => share.is_top && share.pool !== null);
          const withGpus = new Set(tops.filter((share) => share.resource === 'gpu_millis' && (share.requested > 0 || share.deserved > 0)).map(placeOf));
          const shown = tops
            .filter((share) => (share.resource === 'gpu_millis' ? withGpus.has(placeOf(share)) : share.resource === 'cpu_millis' && !withGpus.has(placeOf(share)) && share.requested > 0))
            .slice(0, SHARES_SHOWN);
          if (shown.length === 0) {
            return (
              <Text size="sm" c="dimmed">
                {t('shareNone')}
              </Text>
            );
          }
          return (
            <Stack gap="md">
              {shown.map((share) => (
                <Share key={`${placeOf(share)} ${share.resource}`} share={share} t={t} format={format} />
              ))}
            </Stack>
          );
        }}
      </Answer>
    </Card>
  );
}

function placeOf(share: Schemas['ShareOut']): string {
  return `${share.queue.id} ${share.pool?.id ?? ''}`;
}

function Share({ share, t, format }: { share: Schemas['ShareOut']; t: Translate<keyof (typeof words)['en']>; format: Format }) {
  const unit = share.resource === 'gpu_millis' ? 'gotHours' : 'gotCores';
  const hours = (amount: number) => t(unit, { got: sayHours(format, amount) });
  const target = share.deserved > 0 ? share.deserved : share.fair;
  const said = share.deserved > 0 ? t('gotOf', { got: hours(share.delivered), deserved: hours(share.deserved) }) : t('gotFair', { got: hours(share.delivered), fair: hours(share.fair) });
  return (
    <Stack gap={4}>
      <Meter
        label={`${isolate(share.tenant.name)} · ${share.pool?.name ?? ''}`}
        total={Math.max(target, share.delivered, 1)}
        words=""
        parts={[
          { value: Math.min(share.delivered, target), label: t('got', { hours: hours(share.delivered) }), color: 'berth' },
          ...(share.delivered > target ? [{ value: share.delivered - target, label: hours(share.delivered - target), color: 'teal.4' }] : []),
        ]}
      />
      <Group justify="space-between" gap="xs">
        <Text size="xs" c="dimmed">
          {said}
        </Text>
        {share.shortfall > 0 && (
          <Text size="xs" fw={600}>
            {t('missing', { hours: hours(share.shortfall) })}
          </Text>
        )}
      </Group>
    </Stack>
  );
}

export function Budgets() {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const budgets = useBudgets();
  const items = budgets.data?.items ?? [];
  if (items.length === 0) return null;
  const amount = (budget: Schemas['BudgetOut'], value: number) => sayBudget(format, c, budget, value);
  return (
    <Card title={t('budget', { month: items[0]?.month ?? '' })} to="/usage?tab=budgets" more={t('detail')}>
      <Stack gap="md">
        {items.map((budget) => (
          <Stack key={budget.queue.id} gap={4}>
            <Meter
              label={budget.queue.name}
              total={budget.amount}
              words={t('spent', { spent: amount(budget, budget.spent), amount: amount(budget, budget.amount) })}
              parts={[{ value: budget.spent, label: `${budget.percent} %`, color: budgetColor(budget.percent) }]}
            />
            {budget.spent >= budget.amount && budget.stops ? (
              <Alert color="red" p="xs">
                {t('over')}
              </Alert>
            ) : (
              <Text size="xs" c="dimmed">
                {t('left', { left: amount(budget, Math.max(0, budget.amount - budget.spent)) })}
              </Text>
            )}
          </Stack>
        ))}
      </Stack>
    </Card>
  );
}
