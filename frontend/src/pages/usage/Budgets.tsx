/** What queues may spend this month, and what is spent. */

import { Anchor, SimpleGrid, Stack, Text } from '@mantine/core';
import { Link } from 'react-router';

import { useBudgetList } from '@/api/fleet';
import { common } from '@/text/common';
import { budgetColor, sayBudget } from '@/text/costs';
import { useFormat } from '@/text/format';
import { isolate } from '@/text/isolate';
import { useText } from '@/text/language';
import { Answer, Empty } from '@/ui/Feedback';
import { Meter } from '@/ui/Meter';

import { words } from './text';

export default function Budgets() {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const budgets = useBudgetList();
  return (
    <Answer query={budgets}>
      {(all) =>
        all.length === 0 ? (
          <Empty icon="usage" title={t('budgetsNone')} command="berth budgets set --help">
            {t('budgetsHint')}
          </Empty>
        ) : (
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            {all.map((budget) => {
              const say = (value: number) => sayBudget(format, c, budget, value);
              return (
                <Stack key={budget.queue.id} gap={4}>
                  <Meter
                    label={`${isolate(budget.queue.name)} · ${budget.month}`}
                    total={budget.amount}
                    parts={[{ value: budget.spent, label: say(budget.spent), color: budgetColor(budget.percent) }]}
                    words={t('spent', { spent: say(budget.spent), amount: say(budget.amount), percent: format.percent(budget.percent / 100) })}
                  />
                  <Text size="xs" c="dimmed">
                    <Anchor component={Link} to={`/queues/${budget.queue.id}`} size="xs">
                      {budget.queue.name}
                    </Anchor>{' '}
                    · {t(budget.stops ? 'stops' : 'warns')}
                  </Text>
                </Stack>
              );
            })}
          </SimpleGrid>
        )
      }
    </Answer>
  );
}
