/** A form in a window of its own: opened by a button, all that is wrong shown at its fields, closed when it is done. */

import { Alert, Button, Group, Stack, type ButtonProps, type MantineColor, type MantineSize } from '@mantine/core';
import { useEffect, useLayoutEffect, useRef, useState, type FormEvent, type ReactNode } from 'react';

import { asProblem, Problem } from '@/api/problem';
import { common } from '@/text/common';
import { useText } from '@/text/language';

import { ProblemView } from './Feedback';
import { Icon } from './Icon';
import { Said } from './Said';
import { Window } from './Window';

/** What is wrong at this JSON pointer of the body, in words. A field that asks for its own is not repeated above the form. */
export type At = (path: string) => ReactNode;

export function Dialog({
  label,
  title,
  children,
  size = 'md',
  ...button
}: { label: ReactNode; title: string; children: (close: () => void) => ReactNode; size?: MantineSize } & Omit<ButtonProps, 'size' | 'children'> & { buttonSize?: ButtonProps['size']; 'aria-label'?: string }) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  const { buttonSize, ...rest } = button;
  return (
    <>
      <Button {...rest} size={buttonSize} aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Window opened={isOpen} onClose={close} title={title} size={size}>
        {children(close)}
      </Window>
    </>
  );
}

/** Refuse what the form itself can tell is wrong, all at once and at its fields, as the API would. */
export function refuse(wrong: Readonly<Record<string, string | false>>): void {
  const fields = Object.entries(wrong).flatMap(([path, message]) => (message ? [{ path, code: 'invalid', message }] : []));
  if (fields.length > 0) throw new Problem(-1, { code: 'invalid', fields });
}

const FIELDS = 'input:not([type=hidden], :disabled, [type=radio]:not(:checked)), textarea:not(:disabled)';

/** `submit` throws what the API refused; its fields are told at the inputs that ask for them by `at`. */
export function Form({ submit, onCancel, label, color, children, isReady = true }: { submit: () => Promise<unknown>; onCancel?: () => void; label: ReactNode; color?: MantineColor; children: (at: At) => ReactNode; isReady?: boolean }) {
  const t = useText(common);
  const form = useRef<HTMLFormElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const claimed = new Set<string>();
  const at: At = (path) => {
    claimed.add(path);
    const found = problem?.fields.filter((field) => field.path === path).flatMap((field) => [field.message, field.hint ?? '']);
    return found && found.length > 0 ? <Said text={found} /> : undefined;
  };
  const inputs = children(at);
  const rest = problem?.fields.filter((field) => !claimed.has(field.path)) ?? [];
  const isAllAtFields = problem !== null && problem.fields.length > 0 && rest.length === 0;
  useLayoutEffect(() => {
    // The window looks for this mark when it opens; without it the keyboard would begin at the button that closes it.
    const asked = form.current;
    if (!asked || asked.querySelector('[data-autofocus]')) return;
    const first = asked.querySelector<HTMLElement>(FIELDS) ?? asked.querySelector<HTMLElement>('[type=submit]');
    first?.setAttribute('data-autofocus', 'true');
    if (asked.closest('[role=dialog]')?.contains(document.activeElement)) first?.focus(); // It is open already: the form had to be read first.
  }, []);
  useEffect(() => {
    if (problem) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [problem]);
  const run = async (event: FormEvent) => {
    event.preventDefault();
    event.stopPropagation(); // A form in a window that a form opened is no part of that one.
    const wrong = [...(form.current?.querySelectorAll('input') ?? [])].find((input) => input.validity.customError); // The field says what is wrong.
    if (wrong) return wrong.focus();
    setBusy(true);
    setProblem(null);
    try {
      await submit();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form ref={form} onSubmit={(event) => void run(event)} noValidate>
      <Stack>
        {isAllAtFields && (
          <Alert color="red" icon={<Icon name="alert" />} role="alert" py="xs">
            {t('fieldsWrong', { count: problem.fields.length }).replace(/[:：]$/, '')}
          </Alert>
        )}
        {problem && !isAllAtFields && <ProblemView error={without(problem, claimed)} />}
        {inputs}
        <Group justify="flex-end">
          {onCancel && (
            <Button variant="default" onClick={onCancel}>
              {t('cancel')}
            </Button>
          )}
          <Button type="submit" color={color} loading={isBusy} disabled={!isReady}>
            {label}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function without(problem: Problem, claimed: ReadonlySet<string>): Problem {
  return new Problem(problem.status, {
    code: problem.code,
    title: problem.title,
    detail: problem.detail,
    hint: problem.hint,
    fields: problem.fields.filter((field) => !claimed.has(field.path)),
    retryable: problem.retryable,
    request_id: problem.requestId,
  });
}
