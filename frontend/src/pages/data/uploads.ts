/**
 * Uploads into volumes, one after another.
 *
 * They live beside the pages, not in one: walking into another folder does not end them.
 */

import { useSyncExternalStore } from 'react';

import { asProblem, type Problem } from '@/api/problem';
import { queries } from '@/api/query';
import { digest, transfer } from '@/api/transfer';
import type { Found } from '@/ui/folders';

import { join, written } from './paths';

export const FILES_MAX = 2_000;
const AT_ONCE = 2;

export interface Upload {
  key: number;
  volume: string;
  volumeName: string;
  tenant: string | null;
  path: string;
  size: number;
  state: 'waiting' | 'checking' | 'sending' | 'done' | 'failed' | 'stopped';
  /** Bytes read while checking; bytes that the server has while sending. */
  bytes: number;
  problem: Problem | null;
}

interface Running extends Upload {
  file: File;
  abort: AbortController;
}

let uploads: readonly Running[] = [];
let counter = 0;
const listeners = new Set<() => void>();

export function useUploads(): readonly Upload[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => uploads,
  );
}

export function add(files: readonly Found[], into: { volume: string; volumeName: string; tenant: string | null; folder: string }): void {
  const made = files.slice(0, FILES_MAX).map(({ path, file }): Running => ({
    key: ++counter,
    volume: into.volume,
    volumeName: into.volumeName,
    tenant: into.tenant,
    path: join(into.folder, written(path)),
    size: file.size,
    state: 'waiting',
    bytes: 0,
    problem: null,
    file,
    abort: new AbortController(),
  }));
  set([...uploads, ...made]);
  next();
}

export function stop(key: number): void {
  const found = uploads.find((upload) => upload.key === key);
  found?.abort.abort();
  change(key, { state: 'stopped' });
  next();
}

export function resume(key: number): void {
  change(key, { state: 'waiting', problem: null, abort: new AbortController() });
  next();
}

export function clearEnded(): void {
  set(uploads.filter((upload) => upload.state === 'waiting' || upload.state === 'checking' || upload.state === 'sending'));
}

window.addEventListener('beforeunload', (event) => {
  if (uploads.some((upload) => upload.state === 'checking' || upload.state === 'sending')) event.preventDefault();
});

function set(now: readonly Running[]): void {
  uploads = now;
  for (const listener of listeners) listener();
}

function change(key: number, changes: Partial<Running>): void {
  set(uploads.map((upload) => (upload.key === key ? { ...upload, ...changes } : upload)));
}

function next(): void {
  const busy = uploads.filter((upload) => upload.state === 'checking' || upload.state === 'sending').length;
  for (const upload of uploads.filter((each) => each.state === 'waiting').slice(0, AT_ONCE - busy)) void run(upload);
}

async function run(upload: Running): Promise<void> {
  const { key, file, abort } = upload;
  try {
    change(key, { state: 'checking', bytes: 0 });
    const sha256 = await digest(file, abort.signal, (bytes) => change(key, { bytes }));
    change(key, { state: 'sending', bytes: 0 });
    const target = { volume: upload.volume, path: upload.path };
    await transfer(file, { target, tenant: upload.tenant, sha256 }, abort.signal, (bytes) => change(key, { bytes }));
    change(key, { state: 'done', bytes: file.size });
    void queries.invalidateQueries({ queryKey: ['volume-files', upload.volume] });
  } catch (error) {
    if (!abort.signal.aborted) change(key, { state: 'failed', problem: asProblem(error) });
  }
  next();
}
