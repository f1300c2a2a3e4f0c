import { describe, expect, it } from 'vitest';

import { Problem } from '@/api/problem';

import { atInputs, changesOf, readSettings, writeSettings } from './settings';

const CONFIG = { default_image: 'base:2', node_selector: { team: 'vision', 'a.b/c': '1' }, pod_addresses: true, parallel: 4 };

describe('settings of a cluster', () => {
  it('come back from the inputs as they went in', () => {
    const settings = readSettings(CONFIG);
    expect(settings).toMatchObject({ image: 'base:2', prefix: '', selector: ['team=vision', 'a.b/c=1'] });
    expect(writeSettings(settings)).toEqual(CONFIG);
  });

  it('are empty where there are none', () => {
    expect(readSettings(null)).toEqual({ image: '', prefix: '', selector: [], other: '' });
    expect(writeSettings(readSettings({}))).toEqual({});
  });

  it('are refused where the text is no mapping, and where it unfolds', () => {
    for (const other of ['- a', 'text', '[', 'a: &x [1]\nb: [*x, *x]']) expect(writeSettings({ image: '', prefix: '', selector: [], other })).toBeNull();
  });

  it('send what changed, and null for what is gone', () => {
    expect(changesOf(CONFIG, { ...CONFIG, parallel: 8 })).toEqual({ parallel: 8 });
    expect(changesOf(CONFIG, { default_image: 'base:2' })).toEqual({ node_selector: null, pod_addresses: null, parallel: null });
    expect(changesOf(CONFIG, CONFIG)).toEqual({});
  });

  it('are told at an input that is there', () => {
    const refusal = new Problem(422, {
      fields: [
        { path: '/config/paralel', code: 'unknown_field', message: 'paralel' },
        { path: '/config/default_image', code: 'invalid', message: 'image' },
        { path: '/credentials', code: 'invalid', message: 'kubeconfig' },
      ],
    });
    expect((atInputs(refusal) as Problem).fields.map((field) => field.path)).toEqual(['/config', '/config/default_image', '/credentials']);
  });
});
