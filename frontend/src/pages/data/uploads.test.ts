/** Uploads beside the pages: two at once, stopped and resumed, and not lost by walking into another folder. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { queries } from '@/api/query';
import { digest, transfer } from '@/api/transfer';
import { drawHook, type Drawn } from '@/testing/hooks';
import { gate, settle } from '@/testing/server';

import { add, clearEnded, FILES_MAX, resume, stop, useUploads, type Upload } from './uploads';

vi.mock('@/api/transfer', () => ({ digest: vi.fn(), transfer: vi.fn() }));

const INTO = { volume: 'v1', volumeName: 'digits', tenant: 't', folder: 'data' };
const files = (...names: string[]) => names.map((path) => ({ path, file: new File(['12345'], path) }));

let shown: Drawn<readonly Upload[], undefined>;
let held: Map<string, ReturnType<typeof gate<void>>>;
const states = () => Object.fromEntries(shown.now.map((upload) => [upload.path, upload.state]));
const keyOf = (path: string) => shown.now.find((upload) => upload.path === path)?.key ?? -1;

beforeEach(async () => {
  held = new Map();
  vi.mocked(digest).mockResolvedValue('f00');
  vi.mocked(transfer).mockImplementation(async (_file, { target }, signal, tell) => {
    const own = gate();
    held.set(String(target.path), own);
    signal.addEventListener('abort', () => own.fail(new DOMException('stopped', 'AbortError')));
    tell(2);
    await own.wait;
  });
  shown = await drawHook(useUploads, undefined);
});
afterEach(async () => {
  await shown.act(() => {
    for (const upload of shown.now) stop(upload.key);
    clearEnded();
  });
  await shown.gone();
  vi.restoreAllMocks();
});

describe('uploads', () => {
  it('go two at once, the next as one ends', async () => {
    await shown.act(() => add(files('a', 'b', 'c'), INTO));
    expect(states()).toEqual({ 'data/a': 'sending', 'data/b': 'sending', 'data/c': 'waiting' });
    expect(shown.now[0]).toMatchObject({ volumeName: 'digits', size: 5, bytes: 2 });
    await shown.act(() => held.get('data/b')?.open());
    expect(states()).toEqual({ 'data/a': 'sending', 'data/b': 'done', 'data/c': 'sending' });
  });
  it('of names with a backslash or a newline go to files of these very names', async () => {
    await shown.act(() => add(files('a\\x41', 'two\nlines'), INTO));
    expect(Object.keys(states())).toEqual(['data/a\\\\x41', 'data/two\\x0alines']);
  });
  it('that are done have the list of their volume read anew', async () => {
    const invalidate = vi.spyOn(queries, 'invalidateQueries');
    await shown.act(() => add(files('a'), { ...INTO, folder: '' }));
    await shown.act(() => held.get('a')?.open());
    expect(invalidate).toHaveBeenCalledWith({ queryKey: ['volume-files', 'v1'] });
    expect(shown.now[0]).toMatchObject({ state: 'done', bytes: 5 });
  });
  it('that are stopped make room for the next, and go on when they are resumed', async () => {
    await shown.act(() => add(files('a', 'b', 'c'), INTO));
    await shown.act(() => stop(keyOf('data/a')));
    expect(states()).toEqual({ 'data/a': 'stopped', 'data/b': 'sending', 'data/c': 'sending' });
    await shown.act(() => resume(keyOf('data/a')));
    expect(states()['data/a']).toBe('waiting');
    await shown.act(() => held.get('data/b')?.open());
    expect(states()['data/a']).toBe('sending');
  });
  it('that are stopped before they began are not begun', async () => {
    await shown.act(() => add(files('a', 'b', 'c'), INTO));
    await shown.act(() => stop(keyOf('data/c')));
    await shown.act(() => held.get('data/a')?.open());
    expect([states()['data/c'], held.has('data/c')]).toEqual(['stopped', false]);
  });
  it('that fail say why, do not hold up the others, and can be tried again', async () => {
    await shown.act(() => add(files('a', 'b', 'c'), INTO));
    await shown.act(() => held.get('data/a')?.fail(new Error('The disk is full.')));
    expect(shown.now[0]).toMatchObject({ state: 'failed', problem: { detail: 'The disk is full.' } });
    expect(states()['data/c']).toBe('sending');
    await shown.act(() => resume(keyOf('data/a')));
    expect(shown.now[0]?.problem).toBeNull();
  });
  it('that ended are cleared, and no others', async () => {
    await shown.act(() => add(files('a', 'b', 'c'), INTO));
    await shown.act(() => held.get('data/a')?.open());
    await shown.act(() => stop(keyOf('data/c')));
    await shown.act(() => clearEnded());
    expect(states()).toEqual({ 'data/b': 'sending' });
  });
  it('that are under way keep the page from being closed unasked', async () => {
    const close = () => !window.dispatchEvent(new Event('beforeunload', { cancelable: true }));
    expect(close()).toBe(false);
    await shown.act(() => add(files('a'), INTO));
    expect(close()).toBe(true);
    await shown.act(() => held.get('data/a')?.open());
    expect(close()).toBe(false);
  });
  it('are bounded in one go', async () => {
    await shown.act(() => add(files(...Array.from({ length: FILES_MAX + 5 }, (_, count) => `f${count}`)), INTO));
    await settle();
    expect(shown.now).toHaveLength(FILES_MAX);
  });
});
