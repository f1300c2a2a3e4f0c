/** Files on their way up: taken up where they broke off, tried again while that can help, and remembered over visits. */

import { Blob as NodeBlob } from 'node:buffer';
import { createHash } from 'node:crypto';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { PlayedServer, refusal, settle, type Call } from '@/testing/server';

import { digest, transfer } from './transfer';

const PIECE = 1_000;

/** The upload of one file as the server keeps it. */
class PlayedUpload {
  received = '';
  begun = 0;
  /** What happens to the next pieces, in their order; without one they are taken. */
  mishaps: ((call: Call) => unknown)[] = [];

  constructor(
    server: PlayedServer,
    private readonly size: number,
  ) {
    server
      .on('POST', '/api/v1/uploads', () => ((this.begun += 1), this.state))
      .on('GET', '/api/v1/uploads/u1', () => this.state)
      .on('PATCH', '/api/v1/uploads/u1', (call: Call) => (this.mishaps.shift() ?? this.takePiece)(call));
  }
  get state() {
    return { id: 'u1', offset_bytes: this.received.length, chunk_bytes_max: PIECE, complete: this.received.length === this.size };
  }
  takePiece = (call: Call) => {
    if (Number(call.headers.get('Upload-Offset')) !== this.received.length) return refusal(409, { code: 'wrong_offset' });
    this.received += String(call.body);
    return this.state;
  };
}

const TEXT = Array.from({ length: 350 }, (_, line) => `line ${line}\n`).join('');
const FILE = new Blob([TEXT]);
const target = { volume: 'v1', path: 'data/a.txt' };
const told: number[] = [];
const send = (signal = new AbortController().signal) => transfer(FILE, { target, tenant: 't', sha256: 'f00' }, signal, (bytes) => told.push(bytes));
const remembered = () => Object.values(JSON.parse(localStorage.getItem('berth-uploads') ?? '{}') as Record<string, string>);

let server: PlayedServer;
let upload: PlayedUpload;

beforeEach(() => {
  localStorage.clear();
  told.length = 0;
  server = new PlayedServer().start();
  upload = new PlayedUpload(server, TEXT.length);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** Run something whose waits are played. */
async function hurried<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  void work.finally(() => (isDone = true)).catch(() => undefined);
  for (let turn = 0; turn < 60 && !isDone; turn += 1) {
    await settle(2);
    await vi.advanceTimersByTimeAsync(30_000);
  }
  return work;
}

describe('a file', () => {
  it('goes up in pieces as large as the server takes, and is forgotten then', async () => {
    await send();
    expect(upload.received).toBe(TEXT);
    expect(server.calls.filter((call) => call.method === 'PATCH').map((call) => String(call.body).length)).toEqual([1_000, 1_000, 1_000, TEXT.length - 3_000]);
    expect(told).toEqual([0, 1_000, 2_000, 3_000]);
    expect(server.calls[0]?.body).toEqual({ target, size_bytes: TEXT.length, sha256: 'f00', tenant: 't' });
    expect(remembered()).toEqual([]);
  });
  it('that the server has already is not sent', async () => {
    server.on('POST', '/api/v1/uploads', { id: null, complete: true, offset_bytes: 0, chunk_bytes_max: 0 });
    await send();
    expect(server.asked).toEqual(['POST /api/v1/uploads']);
  });
  it('of no bytes is finished by an empty piece', async () => {
    let isDone = false;
    server.on('POST', '/api/v1/uploads', () => ({ id: 'u1', complete: false, offset_bytes: 0, chunk_bytes_max: PIECE })).on('PATCH', '/api/v1/uploads/u1', () => ((isDone = true), { id: 'u1', complete: true, offset_bytes: 0, chunk_bytes_max: PIECE }));
    await transfer(new Blob([]), { target, tenant: null, sha256: 'e' }, new AbortController().signal, () => undefined);
    expect(isDone).toBe(true);
  });
});

describe('a transfer that breaks', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));

  it('goes on where the server stands, without a byte twice', async () => {
    upload.mishaps = [
      upload.takePiece,
      (call) => {
        upload.takePiece(call); // It arrived, and the answer was lost.
        throw new TypeError('network');
      },
      () => refusal(503),
    ];
    await hurried(send());
    expect(upload.received).toBe(TEXT);
    expect(upload.begun).toBe(1);
  });
  it('waits as long as the server asks for', async () => {
    upload.mishaps = [() => refusal(429, {}, { 'Retry-After': '30' })];
    const work = send();
    await settle();
    await vi.advanceTimersByTimeAsync(29_000);
    await settle();
    expect(upload.received).toBe('');
    await hurried(work);
    expect(upload.received).toBe(TEXT);
  });
  it('counts failures one after the other: progress between them begins the count anew', async () => {
    const fail = () => refusal(502);
    upload.mishaps = [fail, fail, fail, fail, upload.takePiece, fail, fail, fail, fail, upload.takePiece];
    await hurried(send());
    expect(upload.received).toBe(TEXT);
  });
  it('ends with the last failure after six, and is taken up on the next visit', async () => {
    upload.mishaps = [upload.takePiece, ...Array.from({ length: 6 }, () => () => refusal(502))];
    await expect(hurried(send())).rejects.toMatchObject({ status: 502 });
    expect(remembered()).toEqual(['u1']);
    await hurried(send());
    expect([upload.received === TEXT, upload.begun, remembered()]).toEqual([true, 1, []]);
  });
  it('ends at once where the server refuses, and is begun anew next time', async () => {
    upload.mishaps = [() => refusal(413, { code: 'quota_exceeded' })];
    await expect(hurried(send())).rejects.toMatchObject({ code: 'quota_exceeded' });
    expect(remembered()).toEqual([]);
  });
  it('ends where the server takes no more without saying why', async () => {
    server.on('PATCH', '/api/v1/uploads/u1', () => upload.state);
    await expect(hurried(send())).rejects.toMatchObject({ code: 'upload_stuck' });
  });
  it('is begun anew where the server has forgotten it', async () => {
    upload.mishaps = [upload.takePiece, ...Array.from({ length: 6 }, () => () => refusal(502))];
    await hurried(send()).catch(() => undefined);
    upload.received = '';
    server.on('GET', '/api/v1/uploads/u1', refusal(404));
    await hurried(send());
    expect([upload.begun, upload.received === TEXT]).toEqual([2, true]);
  });
  it('ends when its person stops it, while it is sent and while it waits', async () => {
    upload.mishaps = [() => refusal(503)];
    const abort = new AbortController();
    const work = send(abort.signal);
    await settle();
    abort.abort();
    await expect(hurried(work)).rejects.toMatchObject({ name: 'AbortError' });
    expect(remembered()).toEqual(['u1']); // It goes on when it is resumed.
  });
  it('of another file, place or tenant is another upload', async () => {
    upload.mishaps = Array.from({ length: 6 }, () => () => refusal(502));
    await hurried(send()).catch(() => undefined);
    await hurried(transfer(FILE, { target: { ...target, path: 'other' }, tenant: 't', sha256: 'f00' }, new AbortController().signal, () => undefined));
    expect(upload.begun).toBe(2);
  });
});

describe('the memory of what is unfinished', () => {
  it('may hold anything: it is begun anew then', async () => {
    for (const text of ['null', '3', 'not json']) {
      localStorage.setItem('berth-uploads', text);
      upload.received = '';
      await send();
      expect(upload.received).toBe(TEXT);
    }
  });
  it('may be full or switched off', async () => {
    vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
      throw new DOMException('full', 'QuotaExceededError');
    });
    await send();
    expect(upload.received).toBe(TEXT);
  });
  it('keeps the newest of many', async () => {
    localStorage.setItem('berth-uploads', JSON.stringify(Object.fromEntries(Array.from({ length: 250 }, (_, count) => [`old ${count}`, `x${count}`]))));
    upload.mishaps = [() => refusal(403)];
    server.on('PATCH', '/api/v1/uploads/u1', () => {
      expect(remembered()).toHaveLength(200);
      expect(remembered().at(-1)).toBe('u1');
      return upload.takePiece;
    });
    await send().catch(() => undefined);
  });
});

describe('the digest of a file', () => {
  const signal = () => new AbortController().signal;
  it('of a small one is counted here', async () => {
    expect(await digest(new NodeBlob([TEXT]) as Blob, signal(), () => undefined)).toBe(createHash('sha256').update(TEXT).digest('hex'));
  });

  class PlayedWorker {
    static newest: PlayedWorker;
    isEnded = false;
    onmessage: (event: { data: unknown }) => void = () => undefined;
    onerror: (event: { message: string }) => void = () => undefined;
    constructor() {
      PlayedWorker.newest = this;
    }
    postMessage(): void {}
    terminate(): void {
      this.isEnded = true;
    }
  }
  const large = { size: 2 << 20 } as Blob;

  it('of a large one is counted beside the page, which hears how far it is', async () => {
    vi.stubGlobal('Worker', PlayedWorker);
    const work = digest(large, signal(), (bytes) => told.push(bytes));
    PlayedWorker.newest.onmessage({ data: { kind: 'progress', bytes: 5 } });
    PlayedWorker.newest.onmessage({ data: { kind: 'done', sha256: 'abc' } });
    expect([await work, told, PlayedWorker.newest.isEnded]).toEqual(['abc', [5], true]);
  });
  it('ends with the worker: by its failure, and by the person', async () => {
    vi.stubGlobal('Worker', PlayedWorker);
    const failed = digest(large, signal(), () => undefined);
    PlayedWorker.newest.onmessage({ data: { kind: 'failed', words: 'unreadable' } });
    await expect(failed).rejects.toThrow('unreadable');
    const broken = digest(large, signal(), () => undefined);
    PlayedWorker.newest.onerror({ message: '' });
    await expect(broken).rejects.toThrow('could not be read');
    const abort = new AbortController();
    const stopped = digest(large, abort.signal, () => undefined);
    abort.abort();
    await expect(stopped).rejects.toMatchObject({ name: 'AbortError' });
    expect(PlayedWorker.newest.isEnded).toBe(true);
  });
});
