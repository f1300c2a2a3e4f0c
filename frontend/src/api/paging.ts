/** A list read page by page by cursor, as one growing array. */

import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { useCallback, useMemo } from 'react';

interface PageOf<T> {
  items: T[];
  next: string | null;
}

export interface Paged<T> {
  /** Null until the first page is there. */
  rows: readonly T[] | null;
  error: Error | null;
  hasMore: boolean;
  isReading: boolean;
  /** Read the next page, unless it is on its way or there is none. */
  more: () => void;
  retry: () => void;
}

export function usePaged<T>(key: readonly unknown[], read: (cursor: string | undefined) => Promise<PageOf<T>>, isOn = true): Paged<T> {
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => read(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
    enabled: isOn,
  });
  const { data, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = query;
  const rows = useMemo(() => data?.pages.flatMap((page) => page.items) ?? null, [data]);
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage({ cancelRefetch: false });
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return { rows, error: rows ? null : query.error, hasMore: hasNextPage, isReading: isFetchingNextPage, more, retry: () => void refetch() };
}
