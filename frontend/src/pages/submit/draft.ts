/** What was being written, kept for a reload of this tab. Values that look like secrets are left out of what is kept. */

import { DRAFT_KEY as KEY } from '@/api/drafts';

import { change, isRecord, parse, read, type Path } from './spec';

import type { Attempt } from './asking';

const SECRET_NAME = /(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH)(_|$)/i;

export interface Draft {
  text: string;
  tenant: string;
  /** The job or template that it came from, as in the address; another address begins anew. */
  source: string;
  attempt: Attempt | null;
}

/** Names of variables whose values should be secrets of the tenant and not stand in a spec that others can read. */
export function secretsWritten(values: Record<string, unknown> | null): { path: Path; name: string }[] {
  if (!values) return [];
  const found: { path: Path; name: string }[] = [];
  const look = (env: unknown, path: Path) => {
    if (!isRecord(env)) return;
    for (const [name, value] of Object.entries(env)) if (SECRET_NAME.test(name) && value !== null && value !== '') found.push({ path: [...path, name], name });
  };
  look(values.env, ['env']);
  if (isRecord(values.roles)) for (const [name, role] of Object.entries(values.roles)) if (isRecord(role)) look(role.env, ['roles', name, 'env']);
  return found;
}

/** The text without values that look like secrets. */
export function harmless(text: string): string {
  const values = read(parse(text));
  if (values === null) return text.replace(/^(\s*(?:\S*[_-])?(?:token|secret|passw\w*|api_?key|\w*_key|auth)\w*\s*:).*$/gim, '$1');
  return secretsWritten(values).reduce((now, { path }) => change(now, path, ''), text);
}

export function keepDraft(draft: Draft): void {
  const text = harmless(draft.text);
  const attempt = draft.attempt && draft.attempt.text === text && harmless(draft.attempt.body) === draft.attempt.body ? draft.attempt : null;
  try {
    sessionStorage.setItem(KEY + draft.source, JSON.stringify({ ...draft, text, attempt }));
  } catch {
    // No room, or storage is switched off: then it is not kept.
  }
}

export function findDraft(source: string): Draft | null {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(KEY + source) ?? 'null');
    if (!isRecord(kept) || typeof kept.text !== 'string') return null;
    return kept as unknown as Draft;
  } catch {
    return null;
  }
}

export function forgetDraft(source: string): void {
  try {
    sessionStorage.removeItem(KEY + source);
  } catch {
    // It was never kept.
  }
}
