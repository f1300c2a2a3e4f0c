/** One program beside a task over `/ws/v1/exec`: bytes both ways, its size to the server, its end back. */

import { languageHeader } from '@/api/client';

export interface Ended {
  /** The close code of the socket; 1000: the program ended by itself. */
  code: number;
  exitCode: number | null;
  /** The server's own words, where it refused. */
  detail: string;
}

export interface Size {
  rows: number;
  columns: number;
}

const FRAME_BYTES = 8 * 1024; // Pasted text goes in pieces that the server takes.

export class ExecConnection {
  private readonly socket: WebSocket;
  private exitCode: number | null = null;
  private detail = '';
  private isClosed = false;

  constructor(
    target: { job: string; role: string; index: number },
    size: Size,
    private readonly handlers: { onStarted: () => void; onBytes: (bytes: Uint8Array) => void; onEnded: (ended: Ended) => void },
  ) {
    const query = new URLSearchParams({ job: target.job, role: target.role, index: String(target.index), language: languageHeader() });
    this.socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws/v1/exec?${query}`);
    this.socket.binaryType = 'arraybuffer';
    this.socket.onopen = () => this.send({ start: { terminal: true, ...size } });
    this.socket.onmessage = (event: MessageEvent<unknown>) => {
      if (event.data instanceof ArrayBuffer) this.handlers.onBytes(new Uint8Array(event.data));
      else this.told(String(event.data));
    };
    this.socket.onclose = (event) => {
      if (!this.isClosed) this.handlers.onEnded({ code: event.code, exitCode: this.exitCode, detail: this.detail });
    };
  }

  type(bytes: Uint8Array): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    for (let from = 0; from < bytes.length; from += FRAME_BYTES) this.socket.send(bytes.slice(from, from + FRAME_BYTES));
  }

  resize(size: Size): void {
    this.send({ resize: size });
  }

  close(): void {
    this.isClosed = true;
    this.socket.close();
  }

  private send(command: Record<string, unknown>): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(command));
  }

  private told(text: string): void {
    const message = JSON.parse(text) as { type?: string; exit_code?: number | null; detail?: string; hint?: string };
    if (message.type === 'started') this.handlers.onStarted();
    else if (message.type === 'ended') this.exitCode = message.exit_code ?? null;
    else if (message.type === 'error') this.detail = [message.detail, message.hint].filter(Boolean).join(' ');
  }
}
