/**
 * What a visit needs is asked for at once, before anything is drawn: who it is, what is switched on, the page's file, and what the
 * page shows first. One after the other they are four times the way to the server and back.
 */

import { queries } from '@/api/query';
import { featuresQuery, isLikelySignedIn, sessionQuery } from '@/api/session';
import { askIn, startLanguage } from '@/text/language';

import { pageAt } from './pageFiles';

export function begin(): void {
  if (!isLikelySignedIn()) return; // Everything else would only be refused.
  askIn(startLanguage());
  void queries.prefetchQuery(sessionQuery);
  void queries.prefetchQuery(featuresQuery);
  const address = new URL(location.href);
  pageAt(address.pathname)
    ?.read()
    .then((file) => file.begin?.(address))
    .catch(() => undefined); // Whoever draws the page finds out, and says so.
}
