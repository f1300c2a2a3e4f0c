/** What has the keyboard may be taken away by news: a button to stop what has just ended. The keyboard is not lost with it. */

import { useCallback, type RefObject } from 'react';

/** A ref for a group of buttons: when the one that is focused is taken away, what is in `instead` is focused. */
export function useKeyboardKept(instead: RefObject<HTMLElement | null>): (group: HTMLElement | null) => (() => void) | undefined {
  return useCallback(
    (group) => {
      if (!group) return undefined;
      let last: EventTarget | null = null;
      const note = (event: FocusEvent) => {
        last = event.target;
      };
      const observer = new MutationObserver((changes) => {
        const isTaken = changes.some((change) => [...change.removedNodes].some((node) => last instanceof Node && node.contains(last)));
        if (!isTaken) return;
        last = null;
        // Whoever went elsewhere before it was taken stays there.
        if (document.activeElement === null || document.activeElement === document.body) instead.current?.focus({ preventScroll: true });
      });
      group.addEventListener('focusin', note);
      observer.observe(group, { childList: true, subtree: true });
      return () => {
        group.removeEventListener('focusin', note);
        observer.disconnect();
      };
    },
    [instead],
  );
}
