/**
 * Files up in pieces, taken up where they broke off.
 *
 * What is unfinished is remembered in this browser by target and digest, so that the same file chosen again goes on where it stopped,
 * also after the page was closed.
 */

import { api, send, take, type Schemas } from './client';
import type { HashingMessage } from './hashing.worker';
import { asProblem, Problem } from './problem';
import { Sha256 } from './sha256';

const TRIES = 6;
const WAIT_MS = [500, 1_000, 2_000, 5_000, 10_000, 20_000] as const;
const PIECE = 8 * 1024 * 1024; // The server's own bound comes with the upload.
const SMALL = 1024 * 1024; // Counted before a worker has begun.
const MEMORY = 'berth-uploads';
const REMEMBERED_MAX = 200;
const PASSING: ReadonlySet<number> = new Set([0, 409, 416, 429, 502, 503, 504]);

export interface Destination {
  target: Schemas['UploadInRequest']['target'];
  tenant: string | null;
  sha256: string;
}

/** SHA-256 of a file; of a large one counted in a worker. */
export async function digest(file: Blob, signal: AbortSignal, tell: (bytes: number) => void): Promise<string> {
  if (file.size <= SMALL) return new Sha256().update(new Uint8Array(await file.arrayBuffer())).hex();
  return await digestAside(file, signal, tell);
}

function digestAside(file: Blob, signal: AbortSignal, tell: (bytes: number) => void): Promise<string> {
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

/** Send what the server has not; `tell` hears of the bytes that it has. */
export async function transfer(file: Blob, { target, tenant, sha256 }: Destination, signal: AbortSignal, tell: (bytes: number) => void): Promise<void> {
  const memory = [target.volume ?? `code of ${tenant ?? ''}`, target.path ?? '', file.size, sha256].join('\n');
  let state = (await continued(memory, signal)) ?? (await take(api.POST('/api/v1/uploads', { body: { target, size_bytes: file.size, sha256, tenant }, signal })));
  if (state.id) remember(memory, state.id);
  const id = state.id;
  let stuck = 0;
  while (!state.complete && id) {
    const offset = state.offset_bytes;
    tell(offset);
    try {
      // A file of no bytes, or one that was whole when the server went away, is finished by an empty piece.
      const piece = file.slice(offset, offset + (state.chunk_bytes_max || PIECE));
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
