/** Inputs that say what they mean at every key, and keep what is being typed while the file says it otherwise (`0.` is 0). */

import { NumberInput, Textarea, TextInput, type NumberInputProps, type TextareaProps, type TextInputProps } from '@mantine/core';
import { useEffect, useRef, useState, type ChangeEvent } from 'react';

/** The text in a field: what is typed while it has the focus, what the file says otherwise. */
function useTyped<T>(value: T): { typed: T; type: (typed: T) => void; focus: { onFocus: () => void; onBlur: () => void } } {
  const [typed, type] = useState(value);
  const isFocused = useRef(false);
  const told = useRef(value);
  useEffect(() => {
    if (!isFocused.current || value !== told.current) type(value);
    told.current = value;
  }, [value]);
  const onFocus = () => {
    isFocused.current = true;
  };
  const onBlur = () => {
    isFocused.current = false;
    type(told.current);
  };
  return { typed, type, focus: { onFocus, onBlur } };
}

interface Texted {
  value: string;
  onText: (text: string) => void;
}

function useTextField({ value, onText }: Texted) {
  const { typed, type, focus } = useTyped(value);
  const onChange = (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) => {
    type(event.currentTarget.value);
    onText(event.currentTarget.value);
  };
  return { ...focus, value: typed, onChange };
}

export function TextField({ value, onText, ...props }: Texted & Omit<TextInputProps, 'value' | 'onChange' | 'onFocus' | 'onBlur'>) {
  return <TextInput {...props} {...useTextField({ value, onText })} />;
}

export function AreaField({ value, onText, ...props }: Texted & Omit<TextareaProps, 'value' | 'onChange' | 'onFocus' | 'onBlur'>) {
  return <Textarea {...props} {...useTextField({ value, onText })} />;
}

/** A number; undefined when the field is empty. */
export function NumberField({ value, onNumber, ...props }: { value: number | undefined; onNumber: (value: number | undefined) => void } & Omit<NumberInputProps, 'value' | 'onChange' | 'onFocus' | 'onBlur'>) {
  const { typed, type, focus } = useTyped<string | number>(value ?? '');
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
