/** A WebSocket whose other end the test plays. */

import { vi } from 'vitest';

export class PlayedSocket {
  static readonly OPEN = 1;
  static made: PlayedSocket[] = [];
  readyState = 0;
  binaryType = 'blob';
  sent: unknown[] = [];
  onopen: () => void = () => undefined;
  onmessage: (message: { data: unknown }) => void = () => undefined;
  onclose: (event: { code: number }) => void = () => undefined;

  constructor(readonly address: string) {
    PlayedSocket.made.push(this);
  }

  /** Take the place of the browser's class, until `vi.unstubAllGlobals()`. */
  static start(): void {
    PlayedSocket.made = [];
    vi.stubGlobal('WebSocket', PlayedSocket);
  }
  static get newest(): PlayedSocket {
    const socket = PlayedSocket.made.at(-1);
    if (!socket) throw new Error('No socket was made.');
    return socket;
  }

  send(data: string | Uint8Array): void {
    this.sent.push(typeof data === 'string' ? JSON.parse(data) : data);
  }
  close(): void {
    this.drop(1000);
  }
  accept(): void {
    this.readyState = PlayedSocket.OPEN;
    this.onopen();
  }
  say(message: Record<string, unknown>): void {
    this.onmessage({ data: JSON.stringify(message) });
  }
  drop(code = 1006): void {
    this.readyState = 3;
    this.onclose({ code });
  }
}
