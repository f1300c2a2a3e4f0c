/** The ends of a list that is read page by page: waiting, failed, empty, there; and the way to what was not read yet. */

import { Button, Group } from '@mantine/core';
import type { ReactNode } from 'react';

import type { Paged } from '@/api/paging';
import { common } from '@/text/common';
import { useText } from '@/text/language';

import { Loading, ProblemView } from './Feedback';

export function PagedView<T>({ list, empty, children, isVirtual = false }: { list: Paged<T>; empty: ReactNode; children: (rows: readonly T[]) => ReactNode; isVirtual?: boolean }) {
  const t = useText(common);
  if (!list.rows) return list.error ? <ProblemView error={list.error} retry={list.retry} /> : <Loading />;
  if (list.rows.length === 0 && !list.hasMore) return <>{empty}</>;
  return (
    <>
      {children(list.rows)}
      {list.hasMore && !isVirtual && (
        <Group justify="center">
          <Button variant="default" loading={list.isReading} onClick={list.more}>
            {t('more')}
          </Button>
        </Group>
      )}
    </>
  );
}
