/** A draft is kept without what looks secret. */

import { beforeEach, describe, expect, it } from 'vitest';

import { changedParts } from '@/api/rerun';

import { differences } from './asking';
import { findDraft, forgetDraft, harmless, keepDraft, secretsWritten } from './draft';
import { parse, read } from './spec';

const TEXT = 'name: a\ncommand: b\nenv: {SEED: "7", HF_TOKEN: hf_abc}\nroles_: 1\n';

describe('a draft', () => {
  beforeEach(() => sessionStorage.clear());
  it('is kept without what looks like a secret', () => {
    keepDraft({ text: TEXT, tenant: 't', source: '', attempt: null });
    const kept = findDraft('')?.text ?? '';
    expect(kept).not.toContain('hf_abc');
    expect(kept).toContain('SEED: "7"');
    expect(JSON.stringify({ ...sessionStorage })).not.toContain('hf_abc');
  });
  it('keeps no attempt whose body holds what looks like a secret', () => {
    keepDraft({ text: TEXT, tenant: 't', source: '', attempt: { text: TEXT, tenant: 't', body: TEXT, type: 'application/yaml', url: '/', key: 'k' } });
    expect(JSON.stringify({ ...sessionStorage })).not.toContain('hf_abc');
  });
  it('is harmless also while it cannot be read', () => {
    expect(harmless('env:\n  HF_TOKEN: hf_abc\n bad: [')).not.toContain('hf_abc');
  });
  it('is one for each place it came from, and can be forgotten', () => {
    keepDraft({ text: 'name: x\n', tenant: 't', source: 'job:1', attempt: null });
    expect(findDraft('')).toBeNull();
    forgetDraft('job:1');
    expect(findDraft('job:1')).toBeNull();
  });
  it('knows names of secrets from other names', () => {
    const values = read(parse('env: {TOKENS_MAX: 1, API_KEY: a, MONKEY: b, DB_PASSWORD: c, EMPTY_TOKEN: ""}'));
    expect(secretsWritten(values).map((entry) => entry.name)).toEqual(['API_KEY', 'DB_PASSWORD']);
  });
});

describe('a change of a job', () => {
  it('names what differs, part by part, and sends whole parts', () => {
    const older = { name: 'a', env: { A: '1', B: '2' }, tags: ['x'] };
    const newer = { name: 'a', env: { A: '1', B: '3' }, max_runtime: 60 };
    expect(differences(older, newer).map((each) => each.path)).toEqual(['env.B', 'tags', 'max_runtime']);
    expect(changedParts(older, newer)).toEqual({ env: { A: '1', B: '3' }, tags: null, max_runtime: 60 });
  });
});
