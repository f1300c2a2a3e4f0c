/** Settings of a cluster as a form has them: three inputs of their own, and everything else as YAML. */

import { parse, stringify } from 'yaml';

import { Problem } from '@/api/problem';

export type Config = Record<string, unknown>;

export interface Settings {
  image: string;
  prefix: string;
  selector: string[];
  other: string;
}

const OWN = ['default_image', 'namespace_prefix', 'node_selector'] as const;

/** What the inputs begin with. */
export function readSettings(config: Config | null | undefined): Settings {
  const given = config ?? {};
  const selector = given.node_selector;
  const other = Object.fromEntries(Object.entries(given).filter(([name]) => !(OWN as readonly string[]).includes(name)));
  return {
    image: typeof given.default_image === 'string' ? given.default_image : '',
    prefix: typeof given.namespace_prefix === 'string' ? given.namespace_prefix : '',
    selector: selector && typeof selector === 'object' ? Object.entries(selector).map(([name, value]) => `${name}=${String(value)}`) : [],
    other: Object.keys(other).length === 0 ? '' : stringify(other),
  };
}

/** The configuration that the inputs mean; null where the YAML is no mapping. */
export function writeSettings(settings: Settings): Config | null {
  let other: unknown;
  try {
    other = settings.other.trim() === '' ? {} : parse(settings.other, { maxAliasCount: 0 });
  } catch {
    return null;
  }
  if (other === null || typeof other !== 'object' || Array.isArray(other)) return null;
  const selector = Object.fromEntries(settings.selector.map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]));
  return {
    ...(other as Config),
    ...(settings.image.trim() ? { default_image: settings.image.trim() } : {}),
    ...(settings.prefix.trim() ? { namespace_prefix: settings.prefix.trim() } : {}),
    ...(settings.selector.length > 0 ? { node_selector: selector } : {}),
  };
}

/** What a change of the configuration sends: what is new or other, and null for what is gone. */
export function changesOf(before: Config | null | undefined, after: Config): Config {
  const known = before ?? {};
  const changed = Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(known[name]) !== JSON.stringify(value)));
  const gone = Object.fromEntries(Object.keys(known).flatMap((name) => (name in after ? [] : [[name, null] as const])));
  return { ...changed, ...gone };
}

/** A refusal whose settings without an input of their own are told at the input of the others. */
export function atInputs(error: unknown): unknown {
  if (!(error instanceof Problem)) return error;
  const own = OWN.map((name) => `/config/${name}`);
  const fields = error.fields.map((field) => (field.path.startsWith('/config') && !own.includes(field.path) ? { ...field, path: '/config' } : field));
  return new Problem(error.status, { code: error.code, title: error.title, detail: error.detail, hint: error.hint, fields, retryable: error.retryable, request_id: error.requestId });
}
