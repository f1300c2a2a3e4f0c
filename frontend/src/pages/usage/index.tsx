/** Usage: what was used and wasted, shares, statements, budgets, and whether owning pays. */

import { Tabs } from '@mantine/core';
import { lazy, Suspense } from 'react';
import { Route, Routes, useSearchParams } from 'react-router';

import { useSession } from '@/api/session';
import { useText } from '@/text/language';
import { Loading } from '@/ui/Feedback';
import { Page } from '@/ui/Page';

import { words } from './text';

const Used = lazy(() => import('./Used'));
const Shares = lazy(() => import('./Shares'));
const Statements = lazy(() => import('./Statements'));
const Statement = lazy(() => import('./Statement'));
const Budgets = lazy(() => import('./Budgets'));
const Breakeven = lazy(() => import('./Breakeven'));

export default function Usage() {
  const session = useSession();
  return (
    <Routes>
      {session.has('billing') && <Route path="statements/:tenant/:month" element={<Statement />} />}
      <Route path="*" element={<Board />} />
    </Routes>
  );
}

function Board() {
  const t = useText(words);
  const session = useSession();
  const [search, setSearch] = useSearchParams();
  const manages = session.isOperator || session.may('manager');
  const isBilled = session.has('billing');
  const tabs = [
    { value: 'used', label: t('tabUsage'), page: Used },
    { value: 'shares', label: t('tabShares'), page: Shares },
    ...(manages && isBilled ? [{ value: 'statements', label: t('tabStatements'), page: Statements }] : []),
    ...(isBilled ? [{ value: 'budgets', label: t('tabBudgets'), page: Budgets }] : []),
    ...(manages && isBilled ? [{ value: 'breakeven', label: t('tabBreakeven'), page: Breakeven }] : []),
  ];
  const chosen = tabs.find((tab) => tab.value === search.get('tab')) ?? tabs[0];
  return (
    <Page title={t('title')} subtitle={t('subtitle')}>
      <Tabs value={chosen?.value} onChange={(value) => setSearch(value && value !== 'used' ? { tab: value } : {})} keepMounted={false}>
        <Tabs.List mb="md">
          {tabs.map((tab) => (
            <Tabs.Tab key={tab.value} value={tab.value}>
              {tab.label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {tabs.map((tab) => (
          <Tabs.Panel key={tab.value} value={tab.value}>
            <Suspense fallback={<Loading lines={8} />}>
              <tab.page />
            </Suspense>
          </Tabs.Panel>
        ))}
      </Tabs>
    </Page>
  );
}
