/**
 * A folder as one archive (tar, gzip), the same for the same content: the server keeps equal ones once, and is not sent what it has.
 *
 * Entries are sorted; times and owners are left out. A browser does not tell what may be executed: what begins with `#!` is.
 */

import type { Found } from '@/ui/folders';

export const FILES_MAX = 100_000; // As the server and the command line have it.
export const PACKED_MAX = 512 * 1024 * 1024;
const CONTENT_MAX = 4 * 1024 ** 3;
const BLOCK = 512;
const NAME_LENGTH = 100;
const text = new TextEncoder();

export class TooLarge extends Error {}

/** The archive. `tell` hears of the bytes read. Throws TooLarge, or what reading a file throws. */
export async function pack(files: readonly Found[], signal: AbortSignal, tell: (bytes: number) => void): Promise<Blob> {
  if (files.reduce((sum, { file }) => sum + file.size, 0) > CONTENT_MAX) throw new TooLarge();
  let packed = 0;
  const bounded = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(piece, controller) {
      packed += piece.length;
      if (packed > PACKED_MAX) controller.error(new TooLarge());
      else controller.enqueue(piece);
    },
  });
  const sorted = [...files].sort((one, other) => (one.path < other.path ? -1 : 1));
  const source = streamOf(archive(sorted, signal, tell));
  return await new Response(source.pipeThrough(new CompressionStream('gzip')).pipeThrough(bounded)).blob();
}

function streamOf(pieces: AsyncGenerator<Uint8Array<ArrayBuffer>>): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await pieces.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await pieces.return(undefined);
    },
  });
}

export async function* archive(files: readonly Found[], signal: AbortSignal, tell: (bytes: number) => void): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  let read = 0;
  for (const { path, file } of files) {
    signal.throwIfAborted();
    const isProgram = (await file.slice(0, 2).text()) === '#!';
    const name = text.encode(path);
    if (name.length > NAME_LENGTH || name.length !== path.length) yield* longName(path);
    yield header(name, file.size, isProgram ? 0o755 : 0o644, '0');
    let size = 0;
    const reader = file.stream().getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      signal.throwIfAborted();
      size += piece.value.length;
      read += piece.value.length;
      yield piece.value;
      tell(read);
    }
    if (size !== file.size) throw new Error(`${path} changed while it was read.`);
    yield padding(size);
  }
  yield new Uint8Array(2 * BLOCK);
}

/** A name that the plain header has no room for (POSIX.1-2001, pax extended header). */
function* longName(path: string): Generator<Uint8Array<ArrayBuffer>> {
  const record = text.encode(` path=${path}\n`);
  let length = record.length + 1;
  while (String(length).length + record.length !== length) length = String(length).length + record.length;
  const body = text.encode(`${length} path=${path}\n`);
  yield header(text.encode('././@PaxHeader'), body.length, 0, 'x');
  yield body;
  yield padding(body.length);
}

function header(name: Uint8Array, size: number, mode: number, kind: '0' | 'x'): Uint8Array<ArrayBuffer> {
  const made = new Uint8Array(BLOCK);
  const put = (at: number, words: string) => made.set(text.encode(words), at);
  const number = (at: number, length: number, value: number) => put(at, `${value.toString(8).padStart(length - 1, '0')}\0`);
  made.set(name.subarray(0, NAME_LENGTH), 0);
  number(100, 8, mode);
  number(108, 8, 0);
  number(116, 8, 0);
  number(124, 12, size);
  number(136, 12, 0);
  put(148, '        ');
  put(156, kind);
  put(257, 'ustar\x0000');
  put(148, `${made.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, '0')}\0 `);
  return made;
}

function padding(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}
