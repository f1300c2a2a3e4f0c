/**
 * What a visit needs is asked for at once, before anything is drawn: who it is, what is switched on, the page's file, and what the
 * page shows first. One after the other they are four times the way to the server and back.
 */

import { queries } from '@/api/query';
import { featuresQuery, isLikelySignedIn, sessionQuery } from '@/api/session';
import { askIn, startLanguage } from '@/text/language';

import { pageAt } from './pageFiles';

/** Resolves once the page's file is there, if there is a page to wait for. */
export function begin(): Promise<void> | undefined {
  if (!isLikelySignedIn()) return undefined; // Everything else would only be refused.
  askIn(startLanguage());
  void queries.prefetchQuery(sessionQuery);
  void queries.prefetchQuery(featuresQuery);
  const page = pageAt(location.pathname);
  try {
    page?.begin?.(new URL(location.href));
  } catch {
    // An address that nobody wrote by the rules: the page says what is wrong with it.
  }
  return page?.file.load();
}
