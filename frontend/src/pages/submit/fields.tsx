/** Inputs that say what they mean at every key, and keep what is being typed while the file says it otherwise (`0.` is 0). */

import { NumberInput, Textarea, TextInput, type NumberInputProps, type TextareaProps, type TextInputProps } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';

/** The text in a field: what is typed while it has the focus, what the file says otherwise. */
function useTyped<T>(value: T): [T, (typed: T) => void, { onFocus: () => void; onBlur: () => void }] {
  const [typed, setTyped] = useState(value);
  const isFocused = useRef(false);
  const told = useRef(value);
  useEffect(() => {
    if (!isFocused.current || value !== told.current) setTyped(value);
    told.current = value;
  }, [value]);
  return [
    typed,
    (next) => {
      setTyped(next);
    },
    {
      onFocus: () => {
        isFocused.current = true;
      },
      onBlur: () => {
        isFocused.current = false;
        setTyped(told.current);
      },
    },
  ];
}

export function TextField({ value, onText, ...props }: { value: string; onText: (text: string) => void } & Omit<TextInputProps, 'value' | 'onChange' | 'onFocus' | 'onBlur'>) {
  const [typed, type, focus] = useTyped(value);
  return (
    <TextInput
      {...props}
      {...focus}
      value={typed}
      onChange={(event) => {
        type(event.currentTarget.value);
        onText(event.currentTarget.value);
      }}
    />
  );
}

export function AreaField({ value, onText, ...props }: { value: string; onText: (text: string) => void } & Omit<TextareaProps, 'value' | 'onChange' | 'onFocus' | 'onBlur'>) {
  const [typed, type, focus] = useTyped(value);
  return (
    <Textarea
      {...props}
      {...focus}
      value={typed}
      onChange={(event) => {
        type(event.currentTarget.value);
        onText(event.currentTarget.value);
      }}
    />
  );
}

/** A number; undefined when the field is empty. */
export function NumberField({ value, onNumber, ...props }: { value: number | undefined; onNumber: (value: number | undefined) => void } & Omit<NumberInputProps, 'value' | 'onChange' | 'onFocus' | 'onBlur'>) {
  const [typed, type, focus] = useTyped<string | number>(value ?? '');
  return (
    <NumberInput
      {...props}
      {...focus}
      value={typed}
      onChange={(next) => {
        type(next);
        if (next === '') onNumber(undefined);
        else if (typeof next === 'number') onNumber(next);
      }}
    />
  );
}
