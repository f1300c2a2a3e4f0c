/** Blanks of a template: which ones its job names, and how they are sent. */

import type { Parameter } from './asking';

const PLACE = /\$\{\{\s*parameters\.([A-Za-z_][A-Za-z0-9_]{0,62})\s*\}\}/g;

/** Names that stand in the job, in their order, each once. */
export function placesIn(text: string): string[] {
  return [...new Set([...text.matchAll(PLACE)].map((match) => match[1] ?? ''))];
}

/** A blank as it is being written: everything is text until it is sent. */
export interface Blank {
  name: string;
  title: string;
  title_zh: string;
  description: string;
  description_zh: string;
  type: Parameter['type'];
  default: string;
  minimum: string;
  maximum: string;
  choices: string[];
  required: boolean;
}

export function newBlank(name: string): Blank {
  return { name, title: '', title_zh: '', description: '', description_zh: '', type: 'string', default: '', minimum: '', maximum: '', choices: [], required: false };
}

export function blankOf(parameter: Parameter): Blank {
  const say = (value: unknown) => (value === null || value === undefined ? '' : String(value));
  return { ...parameter, default: say(parameter.default), minimum: say(parameter.minimum), maximum: say(parameter.maximum), choices: parameter.choices.map(say) };
}

/** A blank as the API takes it: without what was left empty, numbers as numbers. */
export function sent(blank: Blank): Record<string, unknown> {
  const isNumber = blank.type === 'integer' || blank.type === 'number';
  const value = (text: string): unknown => (isNumber ? numberOf(text) : blank.type === 'boolean' ? text === 'true' : text);
  const made: Record<string, unknown> = { name: blank.name, type: blank.type, required: blank.required };
  for (const key of ['title', 'title_zh', 'description', 'description_zh'] as const) if (blank[key]) made[key] = blank[key];
  if (blank.default !== '') made.default = value(blank.default);
  if (blank.type !== 'boolean' && blank.type !== 'choice') for (const key of ['minimum', 'maximum'] as const) if (blank[key] !== '') made[key] = numberOf(blank[key]);
  if (blank.type === 'choice') made.choices = blank.choices;
  return made;
}

/** What cannot be read as a number is sent as it stands, for the server to refuse at its place. */
function numberOf(text: string): number | string {
  const number = Number(text);
  return text.trim() === '' || !Number.isFinite(number) ? text : number;
}
