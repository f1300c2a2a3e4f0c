/**
 * Escape closes what is on top, and only that.
 *
 * Each window of Mantine listens for itself, so a window over a window closed both at one press, and what was typed below was lost.
 * Here one listener serves all that is open: it closes what was opened last.
 */

import { useEffect, useRef } from 'react';

interface Opened {
  close: () => void;
}

const opened: Opened[] = [];

/** A menu or a list of choices that is open takes the key for itself; Mantine marks what is focused then. */
function isTaken(target: EventTarget | null): boolean {
  return target instanceof Element && target.getAttribute('data-mantine-stop-propagation') === 'true';
}

function hear(event: KeyboardEvent): void {
  if (event.key === 'Escape' && !event.isComposing && !isTaken(event.target)) opened.at(-1)?.close();
}

/** `close` is called by Escape while this is open and nothing was opened after it. Its own window must not listen (`closeOnEscape`). */
export function useEscape(isOpen: boolean, close: () => void): void {
  const latest = useRef(close);
  useEffect(() => {
    latest.current = close;
  });
  useEffect(() => {
    if (!isOpen) return undefined;
    const own: Opened = { close: () => latest.current() };
    if (opened.length === 0) window.addEventListener('keydown', hear, { capture: true });
    opened.push(own);
    return () => {
      opened.splice(opened.indexOf(own), 1);
      if (opened.length === 0) window.removeEventListener('keydown', hear, { capture: true });
    };
  }, [isOpen]);
}
