/** Every sentence of the portal: there in both languages, with the same values in it, and in the words that the field uses. */

import { describe, expect, it } from 'vitest';

import { fill, firstLanguage, type Texts } from './language';
import { makeFormat } from './format';

const FILES = import.meta.glob<Record<string, unknown>>(['@/**/*text.ts', '@/**/*Text.ts', '@/text/*.ts', '@/pages/job/causes.ts', '!@/**/*.test.ts'], { eager: true });

function isTexts(value: unknown): value is Texts<string> {
  return typeof value === 'object' && value !== null && 'en' in value && 'zh' in value;
}

const ALL = Object.entries(FILES).flatMap(([file, exported]) => Object.values(exported).filter(isTexts).map((words) => ({ file: file.replace(/^.*src\//, ''), words })));
const PLACE = /\{(\w+)(?:\|[^}]*)?\}/g;
const places = (text: string) => [...new Set([...text.matchAll(PLACE)].map((match) => match[1]))].sort();

/** `file: key: sentence` of all that a rule finds. */
function found(rule: (en: string, zh: string) => boolean): string[] {
  return ALL.flatMap(({ file, words }) => Object.keys(words.en).filter((key) => rule(words.en[key] ?? '', words.zh[key] ?? '')).map((key) => `${file}: ${key}: ${words.en[key]} / ${words.zh[key]}`));
}

describe('the words of all pages', () => {
  it('are found', () => {
    expect(ALL.length).toBeGreaterThan(40);
  });
  it('are there in both languages, key by key', () => {
    for (const { file, words } of ALL) expect(Object.keys(words.zh).sort(), file).toEqual(Object.keys(words.en).sort());
    expect(found((en, zh) => (en === '') !== (zh === ''))).toEqual([]);
  });
  it('have the same values in both languages; Chinese may leave out one that only chooses between one and many', () => {
    const chooses = (en: string) => [...en.matchAll(/\{(\w+)\|[^}]*\}/g)].map((match) => match[1]);
    expect(found((en, zh) => places(zh).some((name) => !places(en).includes(name)))).toEqual([]);
    expect(found((en, zh) => places(en).some((name) => !places(zh).includes(name) && !chooses(en).includes(name)))).toEqual([]);
  });
  it('have Chinese that is Chinese: its signs, no space before them, and no sentence left in English', () => {
    expect(found((_en, zh) => /[\u4e00-\u9fff][,;?!]/.test(zh) || / [，。；：？！]/.test(zh))).toEqual([]);
    expect(found((en, zh) => /^[A-Z][a-z]+ [a-z]+ .*\.$/.test(en) && en === zh)).toEqual([]);
  });
  it('name people and things: no “nobody”, “whoever” or “somebody”', () => {
    expect(found((en) => /\b(nobody|whoever|somebody|anybody|everybody|so many)\b/i.test(en))).toEqual([]);
  });
  it('close what they open', () => {
    const open = (text: string) => (text.match(/`/g) ?? []).length % 2 === 1 || (text.match(/[“]/g) ?? []).length !== (text.match(/[”]/g) ?? []).length || (text.match(/[（(]/g) ?? []).length !== (text.match(/[）)]/g) ?? []).length;
    expect(found((en, zh) => open(en) || open(zh))).toEqual([]);
  });
});

describe('values in a sentence', () => {
  it('are put in as text, and a number chooses its form', () => {
    expect(fill('{count|One job|All jobs} of {name}', { count: 1, name: 'vision' })).toBe('One job of vision');
    expect(fill('{count} {count|job|jobs}', { count: 1 })).toBe('1 job');
    expect([0, 2, 21].map((count) => fill('{count} {count|job|jobs}', { count }))).toEqual(['0 jobs', '2 jobs', '21 jobs']);
  });
  it('that are not given leave their place, and what looks like a place in a value stays text', () => {
    expect(fill('{a} and {b}', { a: '{b}' })).toBe('{b} and {b}');
    expect(fill('{a}', undefined)).toBe('{a}');
    expect(fill('{a} {b}', { a: 0 })).toBe('0 {b}');
  });
  it('from right to left are set apart, so that numbers beside them stay', () => {
    expect(fill('{name}: 8 of 10', { name: 'שלום' })).toBe('\u2068שלום\u2069: 8 of 10');
  });
});

describe('the first language', () => {
  it.each([
    ['zh', ['en'], 'zh'],
    ['en', ['zh-CN'], 'en'],
    [null, ['zh-Hans-CN', 'en'], 'zh'],
    [null, ['de', 'zh'], 'zh'],
    [null, ['de', 'fr'], 'en'],
    [null, [], 'en'],
    ['klingon', ['en-GB'], 'en'],
  ] as const)('chosen %j, of the browser %j, is %s', (stored, browser, language) => expect(firstLanguage(stored, browser)).toBe(language));
});

describe('times and lengths', () => {
  const NOW = Date.parse('2026-11-24T12:00:00Z');
  const before = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();
  const [en, zh] = [makeFormat('en', 'UTC'), makeFormat('zh', 'UTC')];

  it.each([
    [0, '0 s', '0秒'],
    [0.25, '0.3 s', '0.3秒'],
    [59.4, '59 s', '59秒'],
    [59.9, '1 min', '1分'],
    [61, '1 min 1 s', '1分 1秒'],
    [3_600, '1 h', '1小时'],
    [3_661, '1 h 1 min', '1小时 1分'],
    [86_399, '23 h 59 min', '23小时 59分'],
    [90_000, '1 d 1 h', '1天 1小时'],
    [-5, '0 s', '0秒'],
  ])('%d seconds are %j and %j', (seconds, english, chinese) => expect([en.duration(seconds), zh.duration(seconds)]).toEqual([english, chinese]));

  it.each([
    [0, 'now', '现在'],
    [30, '30 seconds ago', '30秒钟前'],
    [60, '1 minute ago', '1分钟前'],
    [3_600, '1 hour ago', '1小时前'],
    [86_400, 'yesterday', '昨天'],
    [-86_400, 'tomorrow', '明天'],
    [-7_200, 'in 2 hours', '2小时后'],
  ])('%d seconds ago is %j and %j', (seconds, english, chinese) => expect([en.ago(before(seconds), NOW), zh.ago(before(seconds), NOW)]).toEqual([english, chinese]));

  it('that are not known are a dash', () => {
    expect([en.ago(null), en.time(undefined), en.duration(null), zh.time(null)]).toEqual(['–', '–', '–', '–']);
  });
  it('on an axis are as fine as its span needs', () => {
    const at = NOW / 1000;
    expect([en.tick(at, 300), en.tick(at, 3_600), en.tick(at, 10 * 86_400)]).toEqual(['12:00:00', '12:00', '11/24']);
  });
});

describe('numbers and sizes', () => {
  const en = makeFormat('en', 'UTC');
  it('keep little apart from nothing', () => {
    expect([en.number(0), en.number(0.04), en.number(0.06), en.number(-0.001), en.number(1234.56)]).toEqual(['0', '0.04', '0.1', '-0.001', '1,234.6']);
  });
  it('are in binary units, whole where they are large', () => {
    expect([0, 1023, 1024, 1536, 150 * 1024, 16 * 1024 ** 3, 3 * 1024 ** 6].map((bytes) => en.bytes(bytes))).toEqual(['0 B', '1,023 B', '1 KiB', '1.5 KiB', '150 KiB', '16 GiB', '3,072 PiB']);
  });
  it('of GPUs are whole or broken numbers of them', () => {
    expect([en.milli(1000), en.milli(500), en.milli(1), en.percent(0.256), en.percent(0.256, 1)]).toEqual(['1', '0.5', '0.001', '26%', '25.6%']);
  });
});
