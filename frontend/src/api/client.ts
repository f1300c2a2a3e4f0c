/** The one door to the REST API: typed paths, the session's CSRF value on every unsafe verb, failures as `Problem`. */

import createClient, { type Middleware } from 'openapi-fetch';

import { Problem, problemOf } from './problem';
import type { components, paths } from './schema';

export type Schemas = components['schemas'];

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);
const SIGNING_IN = new Set(['/api/v1/session', '/api/v1/sign-in-methods']);

let csrf = '';
let language = 'en';
let whenSignedOut: () => void = () => undefined;

export function setCsrf(value: string): void {
  csrf = value;
}

export function setLanguageHeader(value: string): void {
  language = value;
}

/** What the server's words are asked for in, for a WebSocket's address: a page sets no headers there. */
export function languageHeader(): string {
  return language;
}

/** Called once a request finds that nobody is signed in any more. */
export function onSignedOut(handler: () => void): void {
  whenSignedOut = handler;
}

const envelope: Middleware = {
  onRequest({ request }) {
    request.headers.set('Accept-Language', language);
    if (!SAFE.has(request.method)) {
      if (csrf) request.headers.set('X-Berth-CSRF', csrf);
      if (request.method === 'POST' && !request.headers.has('Idempotency-Key')) request.headers.set('Idempotency-Key', newKey());
    }
    return request;
  },
  async onResponse({ request, response }) {
    if (response.ok) return undefined;
    if (response.status === 401 && !SIGNING_IN.has(new URL(request.url).pathname)) whenSignedOut();
    throw await problemOf(response);
  },
  onError({ error }) {
    if (error instanceof Problem) return error;
    if (error instanceof DOMException && error.name === 'AbortError') return undefined; // It stays what it is.
    return new Problem(0, { code: 'offline', detail: error instanceof Error ? error.message : '' });
  },
};

export const api = createClient<paths>({ baseUrl: '', fetch: (request: Request) => fetch(request), querySerializer: { array: { style: 'form', explode: true } } });
api.use(envelope);

/** The data of a call that succeeded; failures were thrown by the envelope. */
export async function take<T>(call: Promise<{ data?: T; response: Response }>): Promise<T> {
  return (await call).data as T;
}

/** A call outside the typed description (a download, an upload): same headers, same failures. */
export async function send(method: string, path: string, init: { body?: BodyInit; headers?: Record<string, string>; signal?: AbortSignal } = {}): Promise<Response> {
  const headers: Record<string, string> = { 'Accept-Language': language, ...init.headers };
  if (!SAFE.has(method) && csrf) headers['X-Berth-CSRF'] = csrf;
  let response: Response;
  try {
    response = await fetch(path, { method, headers, body: init.body, signal: init.signal });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Problem(0, { code: 'offline' });
  }
  if (!response.ok) {
    if (response.status === 401 && !SIGNING_IN.has(path)) whenSignedOut();
    throw await problemOf(response);
  }
  return response;
}

export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is missing where the page is not on https or loopback.
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
