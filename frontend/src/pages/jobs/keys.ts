/** The list from the keyboard: j and k (or arrows inside of it) move, x selects, Enter opens. */

import { useEffect, useRef, type RefObject } from 'react';

const AFTER_G_MS = 1_200; // `g j` goes to this page; its second key is not ours.

function isElsewhere(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ['TEXTAREA', 'SELECT'].includes(target.tagName) || (target instanceof HTMLInputElement && target.type !== 'checkbox') || target.closest('[role="dialog"], [role="menu"], [role="listbox"]') !== null;
}

/** The position of the row that holds the focus, or -1. */
function focusedRow(place: HTMLElement | null): number {
  const row = document.activeElement?.closest('[aria-rowindex]');
  if (!row || !place?.contains(row)) return -1;
  return Number(row.getAttribute('aria-rowindex')) - 2;
}

export function useListKeys({ place, count, move, toggle }: { place: RefObject<HTMLElement | null>; count: number; move: (index: number) => void; toggle: (index: number) => void }): void {
  const at = useRef(-1);
  const gone = useRef(0);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isElsewhere(event.target)) return;
      if (event.key === 'g') gone.current = Date.now() + AFTER_G_MS;
      if (Date.now() < gone.current) return;
      const focused = focusedRow(place.current);
      const current = focused >= 0 ? focused : at.current;
      const isInside = place.current?.contains(document.activeElement) ?? false;
      const step = event.key === 'j' || (isInside && event.key === 'ArrowDown') ? 1 : event.key === 'k' || (isInside && event.key === 'ArrowUp') ? -1 : 0;
      if (step !== 0 && count > 0) {
        event.preventDefault();
        at.current = Math.min(count - 1, Math.max(0, current + step));
        move(at.current);
      } else if (event.key === 'x' && current >= 0 && current < count) {
        event.preventDefault();
        toggle(current);
      }
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [place, count, move, toggle]);
}
