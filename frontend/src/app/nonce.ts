/** What lets this page's own style tags through its policy: libraries that make some are given it. */

import { setNonce } from 'get-nonce';

export function nonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';
}

/** For the lock of scrolling behind dialogs, which asks nobody else. */
export function offerNonce(): void {
  setNonce(nonce());
}
