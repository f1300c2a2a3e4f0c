/** A folder on its way to become the code of the job: looked at, packed, sent where the server has it not. */

import { useCallback, useEffect, useRef, useState } from 'react';

import { digest, transfer } from '@/api/transfer';
import { TooManyFiles, walk, type Found } from '@/ui/folders';

import { IGNORE_FILE, ignoring } from './ignoring';
import { FILES_MAX, pack, TooLarge } from './packing';

const LISTED_MAX = 5 * FILES_MAX; // With what stays: a browser has listed all before one can say no.

export type Trouble = { kind: 'tooMany' | 'tooLarge' | 'empty' } | { kind: 'error'; error: unknown };

export interface CodeFolder {
  name: string;
  state: 'reading' | 'packing' | 'sending' | 'done' | 'failed';
  files: number;
  bytes: number;
  left: number;
  /** Whether `.berthignore` says what stays. */
  isSaid: boolean;
  packed: number;
  /** Of what is done in this state. */
  share: number;
  trouble: Trouble | null;
}

interface Packed {
  blob: Blob;
  sha256: string;
  tenant: string;
  isUsed: boolean;
}

const NOTHING = { files: 0, bytes: 0, left: 0, isSaid: false, packed: 0, share: 0, trouble: null };

/** `use` gets the digest of the code, once the server has it, and null when the folder is left out after all. */
export function useCodeFolder(tenant: string, use: (sha256: string | null) => void) {
  const [folder, setFolder] = useState<CodeFolder | null>(null);
  const abort = useRef<AbortController | null>(null);
  const packed = useRef<Packed | null>(null);
  const latest = useRef({ tenant, use });
  latest.current = { tenant, use };

  const change = useCallback((changes: Partial<CodeFolder>) => setFolder((now) => now && { ...now, ...changes }), []);
  const remove = useCallback(() => {
    abort.current?.abort();
    if (packed.current?.isUsed) latest.current.use(null);
    packed.current = null;
    setFolder(null);
  }, []);
  const attempt = useCallback(
    async (work: (signal: AbortSignal) => Promise<void>) => {
      abort.current?.abort();
      const own = new AbortController();
      abort.current = own;
      try {
        await work(own.signal);
      } catch (error) {
        if (!own.signal.aborted) change({ state: 'failed', trouble: troubleOf(error) });
      }
    },
    [change],
  );
  const deliver = useCallback(
    async (signal: AbortSignal) => {
      const made = packed.current;
      if (!made) return;
      made.tenant = latest.current.tenant;
      change({ state: 'sending', share: 0, trouble: null });
      await transfer(made.blob, { target: { code: true }, tenant: made.tenant || null, sha256: made.sha256 }, signal, (bytes) => change({ share: bytes / made.blob.size }));
      signal.throwIfAborted();
      change({ state: 'done', share: 1 });
      made.isUsed = true;
      latest.current.use(made.sha256);
    },
    [change],
  );
  /** Files with the folder's name before their paths, or whoever finds them. */
  const take = useCallback(
    (name: string, find: Found[] | (() => Promise<Found[]>)) =>
      attempt(async (signal) => {
        packed.current = null;
        setFolder({ ...NOTHING, name, state: 'reading' });
        const all = withoutTop(typeof find === 'function' ? await find() : find, name);
        signal.throwIfAborted();
        const said = all.find(({ path }) => path === IGNORE_FILE);
        const stays = ignoring(said ? await said.file.text() : null);
        const files = all.filter(({ path }) => !stays(path));
        if (files.length > FILES_MAX) throw new TooManyFiles();
        if (files.length === 0) throw new Empty();
        const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
        change({ state: 'packing', files: files.length, bytes, left: all.length - files.length, isSaid: said !== undefined });
        const blob = await pack(files, signal, (read) => change({ share: bytes > 0 ? read / bytes : 1 }));
        const sha256 = await digest(blob, signal, () => undefined);
        signal.throwIfAborted();
        packed.current = { blob, sha256, tenant: '', isUsed: false };
        change({ packed: blob.size });
        await deliver(signal);
      }),
    [attempt, change, deliver],
  );
  const choose = useCallback((files: Found[]) => void (files.length > 0 && take(files[0]?.path.split('/')[0] ?? '', files)), [take]);
  const drop = useCallback((entries: FileSystemEntry[]) => void take(entries.length === 1 ? (entries[0]?.name ?? '') : '', () => walk(entries, LISTED_MAX)), [take]);
  const retry = useCallback(() => void attempt(deliver), [attempt, deliver]);

  useEffect(() => {
    // Code belongs to a tenant: another one has to be given it, too.
    if (packed.current && packed.current.tenant !== '' && packed.current.tenant !== tenant) void attempt(deliver);
  }, [tenant, attempt, deliver]);
  useEffect(() => () => abort.current?.abort(), []);

  return { folder, choose, drop, remove, retry: folder?.state === 'failed' && packed.current ? retry : null };
}

class Empty extends Error {}

function troubleOf(error: unknown): Trouble {
  if (error instanceof TooManyFiles) return { kind: 'tooMany' };
  if (error instanceof TooLarge) return { kind: 'tooLarge' };
  if (error instanceof Empty) return { kind: 'empty' };
  return { kind: 'error', error };
}

/** Paths inside of the folder. */
function withoutTop(files: readonly Found[], name: string): Found[] {
  return files.map(({ path, file }) => ({ path: name !== '' && path.startsWith(`${name}/`) ? path.slice(name.length + 1) : path, file }));
}
