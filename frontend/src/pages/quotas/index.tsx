/** Limits of all queues as a tree, edited in place; what an edit would do is shown before it is done. */

import { Group, SegmentedControl, Select, Stack, Text, TextInput } from '@mantine/core';
import { useMemo, useState } from 'react';

import { api, take } from '@/api/client';
import { usePools } from '@/api/fleet';
import { usePaged } from '@/api/paging';
import { useSession } from '@/api/session';
import { useAddress } from '@/app/address';
import { amountText, RESOURCES, type Resource } from '@/text/amounts';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Answer, Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';

import { check } from './check';
import { Consequences } from './Consequences';
import { changesOf, draftLimit, isRoot, type Draft, type Queue } from './draft';
import { Edits } from './Edits';
import { LimitTree } from './LimitTree';
import { words } from './text';

export default function Quotas() {
  const t = useText(words);
  const pools = usePools();
  const queues = usePaged<Queue>(['queues', 'all'], (cursor) => take(api.GET('/api/v1/queues', { params: { query: { limit: 500, cursor } } })));
  return (
    <Page title={t('title')} subtitle={t('subtitle')} wide>
      <Answer query={pools} lines={8}>
        {(found) =>
          found.length === 0 ? (
            <Empty icon="quotas" title={t('noPools')} command="berth pools">
              {t('noPoolsHint')}
            </Empty>
          ) : (
            <PagedView list={queues} empty={<Empty icon="queues" title={t('noMatch')} />}>
              {(rows) => <Editor queues={rows} pools={found.map((pool) => ({ id: pool.id, name: pool.name, cluster: pool.cluster.name, capacity: pool.capacity }))} />}
            </PagedView>
          )
        }
      </Answer>
      <Edits />
    </Page>
  );
}

export interface PoolSize {
  id: string;
  name: string;
  cluster: string;
  capacity: Readonly<Record<Resource, number>>;
}

function Editor({ queues, pools }: { queues: readonly Queue[]; pools: readonly PoolSize[] }) {
  const t = useText(words);
  const c = useText(common);
  const session = useSession();
  const [search, put] = useAddress();
  const [draft, setDraft] = useState<Draft>({});
  const pool = pools.find((found) => found.id === search.get('pool')) ?? pools[0];
  const resource = RESOURCES.find((name) => name === search.get('resource')) ?? 'gpu_millis';
  const byId = useMemo(() => new Map(queues.map((queue) => [queue.id, queue])), [queues]);
  const rights = useMemo(() => {
    const found = new Map<string, 'set' | 'ask' | 'look'>();
    for (const queue of queues) {
      const parent = queue.parent_id === null ? undefined : byId.get(queue.parent_id);
      if (isRoot(queue)) found.set(queue.id, 'look');
      else if (session.isOperator || (parent?.tenant && session.may('manager', parent.tenant.slug))) found.set(queue.id, 'set');
      else found.set(queue.id, queue.tenant && session.may('manager', queue.tenant.slug) ? 'ask' : 'look');
    }
    return found;
  }, [queues, byId, session]);
  const changes = useMemo(() => changesOf(queues, draft), [queues, draft]);
  const poolId = pool?.id ?? '';
  const checked = useMemo(
    () =>
      check(
        queues.map((queue) => ({ id: queue.id, parentId: queue.parent_id ?? (isRoot(queue) ? null : 'not seen'), limit: draftLimit(queue, poolId, resource, draft) })),
        session.isOperator ? (pool?.capacity[resource] ?? null) : null,
      ),
    [queues, poolId, resource, draft, session.isOperator, pool],
  );
  if (!pool) return null;
  return (
    <Stack>
      <Group align="flex-end">
        <Select label={c('pool')} w={200} data={pools.map((found) => ({ value: found.id, label: `${found.cluster}/${found.name}` }))} value={pool.id} onChange={(value) => put({ pool: value })} allowDeselect={false} searchable={pools.length > 8} />
        <SegmentedControl aria-label={t('resource')} value={resource} onChange={(value) => put({ resource: value })} data={RESOURCES.map((name) => ({ value: name, label: t(name) }))} />
        <TextInput type="search" aria-label={c('search')} placeholder={c('search')} leftSection={<Icon name="search" size={16} />} value={search.get('q') ?? ''} onChange={(event) => put({ q: event.currentTarget.value })} />
        <Text size="sm" c="dimmed">
          {t('poolHas', { name: pool.name, amount: `${amountText(resource, pool.capacity[resource])} ${t(resource)}` })}
        </Text>
      </Group>
      <LimitTree
        queues={queues}
        pool={pool}
        resource={resource}
        draft={draft}
        rights={rights}
        checked={checked}
        query={search.get('q') ?? ''}
        here={search.get('queue')}
        change={(key, text) =>
          setDraft((now) => {
            const next = { ...now };
            if (text === null) delete next[key];
            else next[key] = text;
            return next;
          })
        }
      />
      {changes.length > 0 && (
        <Consequences
          changes={changes}
          rights={rights}
          queues={byId}
          draft={draft}
          discard={() => setDraft({})}
        />
      )}
    </Stack>
  );
}
