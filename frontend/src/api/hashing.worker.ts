/** The digest of a file, away from the page: a large one takes minutes. */

import { Sha256 } from './sha256';

export type HashingMessage = { kind: 'progress'; bytes: number } | { kind: 'done'; sha256: string } | { kind: 'failed'; words: string };

const PIECE = 4 * 1024 * 1024;

async function digest(file: Blob): Promise<void> {
  const sha = new Sha256();
  for (let at = 0; at < file.size; at += PIECE) {
    sha.update(new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer()));
    tell({ kind: 'progress', bytes: Math.min(file.size, at + PIECE) });
  }
  tell({ kind: 'done', sha256: sha.hex() });
}

function tell(message: HashingMessage): void {
  self.postMessage(message);
}

self.onmessage = (event: MessageEvent<Blob>) => {
  digest(event.data).catch((error: unknown) => tell({ kind: 'failed', words: error instanceof Error ? error.message : String(error) }));
};
