/** The job file in an editor that knows job files. A chunk of its own: it is read when it is first shown. */

import { autocompletion, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { Compartment, EditorState } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef, type Ref } from 'react';
import { useImperativeHandle } from 'react';

import { nonce } from '@/app/nonce';
import { plain } from '@/ui/plain';

import { complete, describe, type Names } from './completing';
import type { Schema } from './schema';
import classes from './Submit.module.css';

export interface Mark {
  from: number;
  to: number;
  message: string;
  severity: 'error' | 'warning';
}

export interface EditorHandle {
  show: (from: number, to: number) => void;
}

const colors = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: 'var(--berth-code-key)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--berth-code-string)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--berth-code-number)' },
  { tag: tags.comment, color: 'var(--mantine-color-dimmed)', fontStyle: 'italic' },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace, tags.meta], color: 'var(--mantine-color-dimmed)' },
]);

const look = (isDark: boolean) =>
  EditorView.theme(
    {
      '&': {
        fontSize: '13px',
        height: '100%',
        backgroundColor: 'var(--mantine-color-body)',
        color: 'var(--mantine-color-text)',
        '--berth-code-key': isDark ? '#63cfde' : '#0b6577',
        '--berth-code-string': isDark ? '#8ce99a' : '#2b7a36',
        '--berth-code-number': isDark ? '#ffc078' : '#a83c00',
      },
      '.cm-scroller': { fontFamily: 'var(--mantine-font-family-monospace)', lineHeight: '1.5' },
      '.cm-content': { caretColor: 'var(--mantine-color-text)', padding: '8px 0' },
      '&.cm-focused': { outline: 'none' },
      '.cm-gutters': { backgroundColor: isDark ? 'var(--mantine-color-dark-8)' : 'var(--mantine-color-gray-0)', color: 'var(--mantine-color-dimmed)', border: 'none' },
      '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: isDark ? 'rgba(255,255,255,.05)' : 'rgba(11,114,133,.06)' },
      '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: isDark ? 'rgba(99,207,222,.28)' : 'rgba(11,114,133,.2)' },
      '.cm-cursor': { borderLeftColor: 'var(--mantine-color-text)' },
      '.cm-tooltip': { backgroundColor: 'var(--mantine-color-body)', color: 'var(--mantine-color-text)', border: '1px solid var(--mantine-color-default-border)', borderRadius: '6px', maxWidth: '30rem', boxShadow: 'var(--mantine-shadow-md)' },
      '.cm-tooltip-hover': { padding: '6px 10px', fontSize: '13px' },
      '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--mantine-primary-color-filled)', color: '#fff' },
      '.cm-completionInfo': { padding: '6px 10px', maxWidth: '22rem' },
      '.cm-completionDetail': { color: 'inherit', opacity: '.75' },
      '.cm-diagnostic': { padding: '6px 10px', whiteSpace: 'pre-wrap' },
    },
    { dark: isDark },
  );

export default function Editor({ text, onText, marks, schema, names, label, describedBy, height, handle, onDrop, onPaste }: {
  text: string;
  onText: (text: string) => void;
  marks: readonly Mark[];
  schema: Schema | undefined;
  names: Names;
  label: string;
  describedBy?: string;
  height: string;
  handle?: Ref<EditorHandle>;
  onDrop?: (data: DataTransfer) => void;
  /** Gives true for a text that it takes itself. */
  onPaste?: (text: string) => boolean;
}) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const scheme = useComputedColorScheme('light');
  const latest = useRef({ onText, schema, names, onDrop, onPaste });
  latest.current = { onText, schema, names, onDrop, onPaste };
  const themes = useRef(new Compartment());

  useEffect(() => {
    if (!place.current) return undefined;
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: text,
        extensions: [
          nonce() ? EditorView.cspNonce.of(nonce()) : [],
          lineNumbers(),
          highlightActiveLineGutter(),
          highlightActiveLine(),
          history(),
          drawSelection(),
          indentOnInput(),
          indentUnit.of('  '),
          bracketMatching(),
          yaml(),
          syntaxHighlighting(colors),
          lintGutter(),
          autocompletion({ override: [(context) => complete(context, latest.current.schema, latest.current.names)], activateOnTyping: true, icons: false }),
          hoverTooltip((at, position) => {
            const found = describe(at.state.doc.toString(), position, latest.current.schema);
            if (!found) return null;
            return {
              pos: found.from,
              end: found.to,
              create: () => {
                const dom = document.createElement('div');
                dom.textContent = plain(found.text);
                return { dom };
              },
            };
          }),
          keymap.of([{ key: 'Mod-Enter', run: () => true }, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
          EditorView.contentAttributes.of({ 'aria-label': label, ...(describedBy ? { 'aria-describedby': describedBy } : {}), tabindex: '0', spellcheck: 'false', autocapitalize: 'off' }),
          EditorView.domEventHandlers({
            paste: (event) => {
              const isTaken = latest.current.onPaste?.(event.clipboardData?.getData('text/plain') ?? '') ?? false;
              if (isTaken) event.preventDefault();
              return isTaken;
            },
            drop: (event) => {
              if (!event.dataTransfer?.types.includes('Files') || !latest.current.onDrop) return false;
              event.preventDefault();
              latest.current.onDrop(event.dataTransfer);
              return true;
            },
          }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged && !update.transactions.some((each) => each.isUserEvent('outside'))) latest.current.onText(update.state.doc.toString());
          }),
          themes.current.of(look(scheme === 'dark')),
        ],
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
    // Made once; what changes later is dispatched into it below.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);

  useEffect(() => {
    view.current?.dispatch({ effects: themes.current.reconfigure(look(scheme === 'dark')) });
  }, [scheme]);

  useEffect(() => {
    const made = view.current;
    if (!made) return;
    const now = made.state.doc.toString();
    if (now !== text) made.dispatch({ changes: difference(now, text), userEvent: 'outside' });
  }, [text]);

  useEffect(() => {
    const made = view.current;
    if (!made || made.state.doc.toString() !== text) return;
    const length = made.state.doc.length;
    const diagnostics: Diagnostic[] = marks.map((mark) => ({ from: Math.min(mark.from, length), to: Math.min(Math.max(mark.to, mark.from), length), severity: mark.severity, message: plain(mark.message) }));
    made.dispatch(setDiagnostics(made.state, diagnostics));
  }, [marks, text]);

  useImperativeHandle(handle, () => ({
    show: (from, to) => {
      const made = view.current;
      if (!made) return;
      const length = made.state.doc.length;
      made.dispatch({ selection: { anchor: Math.min(from, length), head: Math.min(to, length) }, scrollIntoView: true });
      made.focus();
    },
  }));

  return <div ref={place} data-keys="own" className={classes.editor} style={{ height }} />;
}

/** The one piece in which two texts differ, so that cursor and history stay where they are. */
function difference(before: string, after: string): { from: number; to: number; insert: string } {
  let start = 0;
  const most = Math.min(before.length, after.length);
  while (start < most && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < most - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  return { from: start, to: before.length - end, insert: after.slice(start, after.length - end) };
}
