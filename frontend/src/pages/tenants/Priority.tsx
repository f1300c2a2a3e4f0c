/** The highest priority that each role may use by itself, and which line says so. */

import { Select, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Answer, ProblemView } from '@/ui/Feedback';
import { notify } from '@/ui/notify';
import { SmallTable } from '@/ui/SmallTable';

import type { Part } from './Tenant';
import { words } from './text';

type Grants = Schemas['PriorityGrantsOut'];
const CLASSES = ['low', 'normal', 'high', 'urgent'] as const;
const ABOVE = 'above';

export default function Priority(part: Part) {
  const query = useQuery({ queryKey: ['tenant', part.tenant.slug, 'priority'], queryFn: () => take(api.GET('/api/v1/tenants/{tenant}/priority-grants', { params: { path: { tenant: part.tenant.slug } } })) });
  return <Answer query={query}>{(grants) => <Shown {...part} grants={grants} />}</Answer>;
}

function Shown({ tenant, runs, grants }: Part & { grants: Grants }) {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const [error, setError] = useState<unknown>(null);
  const mayManagers = session.isOperator || (tenant.parent !== null && session.may('manager', tenant.parent.slug));
  const set = async (role: 'member' | 'manager', value: string) => {
    setError(null);
    try {
      await api.PUT('/api/v1/tenants/{tenant}/priority-grants', { params: { path: { tenant: tenant.slug } }, body: { [role]: value === ABOVE ? null : (CLASSES.find((name) => name === value) ?? Number(value)) } });
      notify(t('done', { name: c(role) }));
    } catch (reason) {
      setError(reason);
    } finally {
      await queries.invalidateQueries({ queryKey: ['tenant', tenant.slug, 'priority'] });
    }
  };
  const says = (name: string) => (CLASSES as readonly string[]).includes(name) ? `${t(name as (typeof CLASSES)[number])} (${grants.classes[name] ?? ''})` : name;
  return (
    <Stack>
      <Text c="dimmed">{t('priorityHint')}</Text>
      {error !== null && <ProblemView error={error} />}
      <SmallTable label={t('priority')} head={[t('role'), t('priority'), t('setBy')]} minWidth={420}>
        {grants.items.map((grant) => {
          const isOwn = grant.tenant?.id === tenant.id;
          const may = runs && (grant.role === 'member' || mayManagers);
          const others = (CLASSES as readonly string[]).includes(grant.priority_name) ? [] : [{ value: String(grant.priority), label: String(grant.priority) }];
          return (
            <Table.Tr key={grant.role}>
              <Table.Td>{c(grant.role)}</Table.Td>
              <Table.Td>
                {may ? (
                  <Select
                    size="xs"
                    maw={260}
                    aria-label={t('priorityOf', { role: c(grant.role) })}
                    allowDeselect={false}
                    data={[
                      { value: ABOVE, label: isOwn ? t('asAboveAgain') : t('asAbove', { name: says(grant.priority_name) }) },
                      ...CLASSES.map((name) => ({ value: name as string, label: says(name) })),
                      ...others,
                    ]}
                    value={isOwn ? (others.length ? String(grant.priority) : grant.priority_name) : ABOVE}
                    onChange={(value) => value && void set(grant.role, value)}
                  />
                ) : (
                  says(grant.priority_name)
                )}
              </Table.Td>
              <Table.Td>{grant.tenant?.name ?? t('installation')}</Table.Td>
            </Table.Tr>
          );
        })}
      </SmallTable>
      {runs && !mayManagers && (
        <Text size="sm" c="dimmed">
          {t('managersAbove')}
        </Text>
      )}
    </Stack>
  );
}
