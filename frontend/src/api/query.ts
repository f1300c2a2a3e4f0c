/** How answers are kept: fresh for a few seconds, refetched by live events, never retried where a retry cannot help. */

import { QueryClient } from '@tanstack/react-query';

import { asProblem } from './problem';

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      gcTime: 5 * 60_000,
      refetchOnWindowFocus: true,
      retry: (count, error) => asProblem(error).retryable && count < 3,
      retryDelay: (count, error) => Math.max((asProblem(error).retryAfterSeconds ?? 0) * 1000, Math.min(500 * 2 ** count, 8_000)),
    },
    mutations: { retry: false },
  },
});
