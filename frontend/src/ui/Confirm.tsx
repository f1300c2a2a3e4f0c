/** A button whose deed is asked about first, and whose refusal is shown where it was pressed. */

import { Button, Group, Modal, Stack, Text, type ButtonProps } from '@mantine/core';
import { useState, type ReactNode } from 'react';

import { common } from '@/text/common';
import { useText } from '@/text/language';

import { ProblemView } from './Feedback';

export function Confirm({
  label,
  title,
  children,
  act,
  confirm,
  ...button
}: { label: ReactNode; title: string; children?: ReactNode; act: () => Promise<unknown>; confirm?: string } & ButtonProps) {
  const t = useText(common);
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      await act();
      setOpen(false);
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button {...button} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={title} closeButtonProps={{ 'aria-label': t('close') }}>
        <Stack>
          {children && <Text component="div">{children}</Text>}
          {error !== null && <ProblemView error={error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={() => setOpen(false)}>
              {t('cancel')}
            </Button>
            <Button color={button.color} loading={isBusy} onClick={() => void run()} data-autofocus>
              {confirm ?? label}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
