/** A window over the page: closed by Escape and a button with a name, and the keyboard returns to where it was. */

import { Modal, type ModalProps } from '@mantine/core';
import { useLayoutEffect } from 'react';

import { common } from '@/text/common';
import { useText } from '@/text/language';

const SETTLED_MS = 30; // After Mantine's own try, which knows only windows that are closed before they are taken away.

export function Window({ opened = true, ...props }: Omit<ModalProps, 'opened' | 'closeButtonProps'> & { opened?: boolean }) {
  const t = useText(common);
  useFocusBack(opened);
  return <Modal {...props} opened={opened} closeButtonProps={{ 'aria-label': t('close') }} />;
}

/** When what was open closes, or is taken away, the keyboard goes back to what opened it, or to the page where that is gone. */
export function useFocusBack(isOpen: boolean): void {
  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    const before = document.activeElement;
    const menu = before?.closest('[role="menu"]')?.getAttribute('aria-labelledby'); // Its entry is gone with the menu; its button stays.
    return () => {
      setTimeout(() => {
        if (document.activeElement !== null && document.activeElement !== document.body) return;
        const found = menu ? document.getElementById(menu) : before;
        const target = found instanceof HTMLElement && found.isConnected && found !== document.body ? found : document.getElementById('content');
        target?.focus({ preventScroll: true });
      }, SETTLED_MS);
    };
  }, [isOpen]);
}
