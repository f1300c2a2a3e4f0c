/** Keys that work on every page: Ctrl+K, `?`, `/`, and `g` followed by a page's letter. Never while somebody types. */

import { useEffect, useRef } from 'react';
import { useNavigate } from 'react-router';

import type { PageEntry } from './pages';

const SECOND_KEY_MS = 1_200;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName) || target.closest('[data-keys="own"]') !== null;
}

export function useShortcuts({ pages, openPalette, openHelp }: { pages: readonly PageEntry[]; openPalette: () => void; openHelp: () => void }): void {
  const navigate = useNavigate();
  const goUntil = useRef(0);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        openPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === '?') {
        event.preventDefault();
        openHelp();
      } else if (event.key === '/') {
        const field = document.querySelector<HTMLInputElement>('main input[type="search"]');
        if (field) {
          event.preventDefault();
          field.focus();
        }
      } else if (event.key === 'g') {
        goUntil.current = Date.now() + SECOND_KEY_MS;
      } else if (Date.now() < goUntil.current) {
        goUntil.current = 0;
        const page = pages.find((entry) => entry.key === event.key);
        if (page) void navigate(page.path);
      }
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [pages, navigate, openPalette, openHelp]);
}
