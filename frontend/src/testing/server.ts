/** The API as a test plays it: every call is noted, and answered by the newest route that fits. */

import { vi } from 'vitest';

export interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Headers;
  /** As it was sent: JSON as values, other text as it stands. */
  body: unknown;
  signal: AbortSignal;
}

type Answer = (call: Call) => unknown;

/** An answer of the API that refuses, as RFC 9457 has it. */
export function refusal(status: number, body: Record<string, unknown> = {}, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify({ status, title: `Refused ${status}`, ...body }), { status, headers: { 'Content-Type': 'application/problem+json', ...headers } });
}

export class PlayedServer {
  calls: Call[] = [];
  private routes: { method: string; path: string | RegExp; answer: Answer }[] = [];

  /** Take the place of the browser's `fetch`, until `vi.unstubAllGlobals()`. */
  start(): this {
    vi.stubGlobal('fetch', (input: RequestInfo | URL, init?: RequestInit) => this.take(new Request(input, init)));
    return this;
  }

  /** Answer with a value as JSON, a Response, or what a function makes of the call. A function that throws is a network that fails. */
  on(method: string, path: string | RegExp, answer: unknown): this {
    this.routes.unshift({ method, path, answer: typeof answer === 'function' ? (answer as Answer) : () => answer });
    return this;
  }

  /** What was asked so far, as `GET /api/v1/jobs`. */
  get asked(): string[] {
    return this.calls.map((call) => `${call.method} ${call.path}`);
  }

  private async take(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const text = request.method === 'GET' ? '' : await request.clone().text();
    const isJson = (request.headers.get('Content-Type') ?? '').includes('json') && text !== '';
    const call: Call = { method: request.method, path: decodeURIComponent(url.pathname), query: url.searchParams, headers: request.headers, body: isJson ? JSON.parse(text) : text, signal: request.signal };
    this.calls.push(call);
    if (request.signal.aborted) throw new DOMException('stopped', 'AbortError');
    const route = this.routes.find(({ method, path }) => method === call.method && (typeof path === 'string' ? path === call.path : path.test(call.path)));
    if (!route) return refusal(404, { code: 'no_route_in_this_test', detail: `${call.method} ${call.path}` });
    const answer = await route.answer(call);
    if (request.signal.aborted) throw new DOMException('stopped', 'AbortError');
    if (answer instanceof Response) return answer.clone();
    return answer === undefined ? new Response(null, { status: 204 }) : Response.json(answer);
  }
}

/** Something that is waited for, and let go on when the test says so. */
export function gate<T = void>(): { wait: Promise<T>; open: (value: T) => void; fail: (error: unknown) => void } {
  let open: (value: T) => void = () => undefined;
  let fail: (error: unknown) => void = () => undefined;
  const wait = new Promise<T>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  return { wait, open, fail };
}

const laterReally = globalThis.setTimeout; // Also where a test plays the clock.

/** Let what is on its way arrive, and what follows from it. */
export async function settle(rounds = 10): Promise<void> {
  for (let round = 0; round < rounds; round += 1) await new Promise((resolve) => laterReally(resolve, 0));
}
