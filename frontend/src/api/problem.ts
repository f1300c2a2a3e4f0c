/** What the API says when it refuses (RFC 9457), and what the portal says when the API cannot be reached. */

export interface FieldProblem {
  path: string;
  code: string;
  message: string;
  hint?: string | null;
  /** Of the file that was sent, where it has lines. */
  line?: number | null;
}

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly hint: string;
  readonly fields: readonly FieldProblem[];
  readonly retryable: boolean;
  readonly requestId: string;
  /** The page of the rule that refused, on this server; empty where the answer names none. */
  readonly rule: string;
  readonly retryAfterSeconds: number | null;

  constructor(status: number, body: Record<string, unknown>, retryAfter: string | null = null) {
    const text = (name: string) => (typeof body[name] === 'string' ? (body[name] as string) : '');
    super(text('detail') || text('title') || `HTTP ${status}`);
    this.name = 'Problem';
    this.status = status;
    this.code = text('code') || (status === 0 ? 'offline' : 'error');
    this.title = text('title');
    this.detail = text('detail');
    this.hint = text('hint');
    this.fields = Array.isArray(body.fields) ? (body.fields as FieldProblem[]) : [];
    this.retryable = body.retryable === true || status === 0;
    this.requestId = text('request_id');
    this.rule = /^\/docs\/errors#[a-z_]+$/.test(text('type')) ? text('type') : '';
    this.retryAfterSeconds = retryAfter && /^\d+$/.test(retryAfter) ? Number(retryAfter) : null;
  }

  /** The message of the field at this JSON pointer, or undefined. */
  at(path: string): string | undefined {
    return this.fields.find((field) => field.path === path)?.message;
  }
}

/** The answer's body as a Problem, whatever a proxy on the way made of it. */
export async function problemOf(response: Response): Promise<Problem> {
  let body: Record<string, unknown> = {};
  try {
    const read: unknown = await response.clone().json();
    if (read && typeof read === 'object' && !Array.isArray(read)) body = read as Record<string, unknown>;
  } catch {
    // Not JSON: a proxy's own page. The status says enough.
  }
  return new Problem(response.status, body, response.headers.get('Retry-After'));
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(-1, { code: 'portal_fault', detail: error instanceof Error ? error.message : String(error) });
}
