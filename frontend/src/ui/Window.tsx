/** A window over the page: closed by Escape and a button with a name, and the keyboard returns to where it was. */

import { Modal, type ModalProps } from '@mantine/core';
import { useEffect, useMemo } from 'react';

import { common } from '@/text/common';
import { useText } from '@/text/language';

import { useEscape } from './escape';

const SETTLED_MS = 30; // After Mantine's own try, which knows only windows that are closed before they are taken away.

export function Window({ opened = true, ...props }: Omit<ModalProps, 'opened' | 'closeButtonProps'> & { opened?: boolean }) {
  const t = useText(common);
  useFocusBack(opened);
  useEscape(opened && props.closeOnEscape !== false, props.onClose);
  return <Modal {...props} opened={opened} closeOnEscape={false} closeButtonProps={{ 'aria-label': t('close') }} />;
}

/** When what was open closes, or is taken away, the keyboard goes back to what opened it, or to the page where that is gone. */
export function useFocusBack(isOpen: boolean): void {
  // Looked up while it is drawn: afterwards the entry of a menu, which closes by the same press, may be gone. The menu's button stays.
  const [before, menu] = useMemo(() => {
    const active = isOpen ? document.activeElement : null;
    return [active, active?.closest('[role="menu"]')?.getAttribute('aria-labelledby')];
  }, [isOpen]);
  useEffect(() => {
    if (!isOpen) return undefined;
    return () => {
      setTimeout(() => {
        if (typeof document === 'undefined') return; // The page itself is gone, as between two tests.
        if (document.activeElement !== null && document.activeElement !== document.body) return;
        const found = menu ? document.getElementById(menu) : before;
        const target = found instanceof HTMLElement && found.isConnected && found !== document.body ? found : document.getElementById('content');
        target?.focus({ preventScroll: true });
      }, SETTLED_MS);
    };
  }, [isOpen, before, menu]);
}
