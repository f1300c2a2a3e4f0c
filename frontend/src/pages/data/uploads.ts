/**
 * Uploads in pieces, taken up where they broke off.
 *
 * They live beside the pages, not in one: walking into another folder does not end them. What is unfinished is remembered in this
 * browser by target and digest, so that the same file chosen again goes on where it stopped, also after the page was closed.
 */

import { useSyncExternalStore } from 'react';

import { api, send, take, type Schemas } from '@/api/client';
import { asProblem, Problem } from '@/api/problem';
import { queries } from '@/api/query';

import type { HashingMessage } from './hashing.worker';
import { join } from './paths';

export const FILES_MAX = 500;
const AT_ONCE = 2;
const TRIES = 6;
const WAIT_MS = [500, 1_000, 2_000, 5_000, 10_000, 20_000] as const;
const PIECE = 8 * 1024 * 1024; // The server's own bound comes with the upload.
const MEMORY = 'berth-uploads';
const REMEMBERED_MAX = 200;
const PASSING: ReadonlySet<number> = new Set([0, 409, 416, 429, 502, 503, 504]);

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

export function add(files: readonly File[], into: { volume: string; volumeName: string; tenant: string | null; folder: string }): void {
  const made = files.slice(0, FILES_MAX).map((file): Running => ({
    key: ++counter,
    volume: into.volume,
    volumeName: into.volumeName,
    tenant: into.tenant,
    path: join(into.folder, file.name),
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
    await transfer(upload, sha256, abort.signal);
    change(key, { state: 'done', bytes: file.size });
    void queries.invalidateQueries({ queryKey: ['volume-files', upload.volume] });
  } catch (error) {
    if (!abort.signal.aborted) change(key, { state: 'failed', problem: asProblem(error) });
  }
  next();
}

function digest(file: File, signal: AbortSignal, tell: (bytes: number) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('./hashing.worker.ts', import.meta.url), { type: 'module' });
    const end = () => worker.terminate();
    signal.addEventListener('abort', () => {
      end();
      reject(new DOMException('stopped', 'AbortError'));
    });
    worker.onmessage = (event: MessageEvent<HashingMessage>) => {
      const message = event.data;
      if (message.kind === 'progress') tell(message.bytes);
      else {
        end();
        if (message.kind === 'done') resolve(message.sha256);
        else reject(new Error(message.words));
      }
    };
    worker.onerror = (event) => {
      end();
      reject(new Error(event.message || 'The file could not be read.'));
    };
    worker.postMessage(file);
  });
}

async function transfer(upload: Running, sha256: string, signal: AbortSignal): Promise<void> {
  const target = { volume: upload.volume, path: upload.path };
  const memory = [upload.volume, upload.path, upload.size, sha256].join('\n');
  let state = (await continued(memory, signal)) ?? (await take(api.POST('/api/v1/uploads', { body: { target, size_bytes: upload.size, sha256, tenant: upload.tenant }, signal })));
  if (state.id) remember(memory, state.id);
  const id = state.id;
  let stuck = 0;
  while (!state.complete && id) {
    const offset = state.offset_bytes;
    change(upload.key, { bytes: offset });
    try {
      // A file of no bytes, or one that was whole when the server went away, is finished by an empty piece.
      const piece = upload.file.slice(offset, offset + (state.chunk_bytes_max || PIECE));
      const answer = await send('PATCH', `/api/v1/uploads/${encodeURIComponent(id)}`, { body: piece, headers: { 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': String(offset) }, signal });
      state = (await answer.json()) as Schemas['UploadOut'];
      if (state.offset_bytes > offset || state.complete) stuck = 0;
      else if (++stuck >= TRIES) throw new Problem(-1, { code: 'upload_stuck', detail: 'The server takes no more of this file.' });
    } catch (error) {
      const problem = asProblem(error);
      if (signal.aborted) throw error;
      if (!PASSING.has(problem.status) || ++stuck >= TRIES) {
        if (!PASSING.has(problem.status)) forget(memory);
        throw error;
      }
      await pause(problem.retryAfterSeconds ? problem.retryAfterSeconds * 1000 : (WAIT_MS[stuck - 1] ?? 20_000), signal);
      state = await found(id, signal, state);
    }
  }
  forget(memory);
}

/** Where the server stands; as before, while it cannot be asked. */
async function found(upload_id: string, signal: AbortSignal, before: Schemas['UploadOut']): Promise<Schemas['UploadOut']> {
  try {
    return await take(api.GET('/api/v1/uploads/{upload_id}', { params: { path: { upload_id } }, signal }));
  } catch (error) {
    if (signal.aborted || !PASSING.has(asProblem(error).status)) throw error;
    return before;
  }
}

async function continued(memory: string, signal: AbortSignal): Promise<Schemas['UploadOut'] | null> {
  const upload_id = remembered()[memory];
  if (!upload_id) return null;
  try {
    return await take(api.GET('/api/v1/uploads/{upload_id}', { params: { path: { upload_id } }, signal }));
  } catch (error) {
    if (asProblem(error).status !== 404) throw error;
    forget(memory);
    return null;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(new DOMException('stopped', 'AbortError'));
    });
  });
}

function remembered(): Record<string, string> {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(MEMORY) ?? '{}');
    return kept && typeof kept === 'object' ? (kept as Record<string, string>) : {};
  } catch {
    return {};
  }
}

function remember(memory: string, id: string): void {
  const kept = Object.entries(remembered()).filter(([key]) => key !== memory);
  store([...kept, [memory, id] as [string, string]].slice(-REMEMBERED_MAX));
}

function forget(memory: string): void {
  store(Object.entries(remembered()).filter(([key]) => key !== memory));
}

function store(entries: readonly (readonly [string, string])[]): void {
  try {
    localStorage.setItem(MEMORY, JSON.stringify(Object.fromEntries(entries)));
  } catch {
    // Without memory an upload begins anew after the page was closed; nothing is lost.
  }
}
