/** A button whose deed is asked about first, and whose refusal is shown where it was pressed. */

import { Text, type ButtonProps } from '@mantine/core';
import type { ReactNode } from 'react';

import { Dialog, Form } from './Dialog';

export function Confirm({ label, title, children, act, confirm, size, ...button }: { label: ReactNode; title: string; children?: ReactNode; act: () => Promise<unknown>; confirm?: string } & ButtonProps) {
  return (
    <Dialog {...button} label={label} title={title} buttonSize={size}>
      {(close) => {
        const submit = async () => {
          await act();
          close();
        };
        return (
          <Form submit={submit} onCancel={close} label={confirm ?? label} color={button.color}>
            {() => children && <Text component="div">{children}</Text>}
          </Form>
        );
      }}
    </Dialog>
  );
}
