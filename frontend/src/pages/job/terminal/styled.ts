/**
 * Lets xterm make its style elements under the page's policy: they carry the nonce that it asks for.
 *
 * Its option `documentOverride` does not reach all of them (the scrollbar's is made from the window's document), so the document itself
 * hands out elements with the nonce, for as long as one synchronous call takes.
 */

import { nonce } from '@/app/nonce';

export function withNonce(act: () => void): void {
  const pass = nonce();
  if (!pass) {
    act();
    return;
  }
  Object.defineProperty(document, 'createElement', {
    configurable: true,
    value: (tag: string, options?: ElementCreationOptions): HTMLElement => {
      const element = Document.prototype.createElement.call(document, tag, options);
      if (element instanceof HTMLStyleElement) element.nonce = pass;
      return element;
    },
  });
  try {
    act();
  } finally {
    Reflect.deleteProperty(document, 'createElement');
  }
}
