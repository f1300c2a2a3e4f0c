/**
 * A component in a file of its own, which can be asked for early.
 *
 * React's own `lazy` draws what stands in for it first even where the file has come meanwhile, and then keeps that for 300 ms, so that
 * nothing flickers. Here a file that has come is drawn at once, and only one that has not is waited for.
 */

import { lazy, useState, type ComponentType } from 'react';

export interface LazyFile<P extends object> {
  Shown: ComponentType<P>;
  /** Ask for the file, or find it there; never fails: whoever draws it finds out, and says so. */
  load: () => Promise<void>;
}

export function lazyFile<P extends object>(read: () => Promise<{ default: ComponentType<P> }>): LazyFile<P> {
  let found: ComponentType<P> | null = null;
  const keep = async () => {
    const file = await read();
    found = file.default;
    return file;
  };
  const Later = lazy(keep) as unknown as ComponentType<P>;
  function Shown(props: P) {
    const [Ready] = useState(() => found); // Kept while it is drawn: another component would lose what it knows.
    return Ready ? <Ready {...props} /> : <Later {...props} />;
  }
  return { Shown, load: () => keep().then(() => undefined, () => undefined) };
}
