/** A button that asks for a whole folder. Browsers show their own question first. */

import { Button, type ButtonProps } from '@mantine/core';
import { useRef } from 'react';

import { chosen, type Found } from './folders';

export function FolderButton({ label, title, onFolder, ...props }: { label: string; title?: string; onFolder: (files: Found[]) => void } & Omit<ButtonProps, 'onClick'>) {
  const picker = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button {...props} title={title} onClick={() => picker.current?.click()}>
        {label}
      </Button>
      <input
        type="file"
        hidden
        multiple
        aria-label={label}
        ref={(field) => {
          if (field) field.webkitdirectory = true;
          picker.current = field;
        }}
        onChange={(event) => {
          onFolder(chosen(event.currentTarget.files));
          event.currentTarget.value = '';
        }}
      />
    </>
  );
}
