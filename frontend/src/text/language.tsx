/**
 * The portal's words, in English and Chinese.
 *
 * Each page keeps its words beside it in a `text.ts` made by `texts`: English gives the keys, and Chinese that lacks one does not
 * compile. `{name}` stands for a value, `{count|job|jobs}` for one of two forms by a number. Values are put in as text, never as markup.
 */

import { createContext, use, useEffect, useMemo, type ReactNode } from 'react';

import { setLanguageHeader } from '@/api/client';

import { isolate } from './isolate';

export type Language = 'en' | 'zh';
export const LANGUAGES: readonly { value: Language; label: string }[] = [
  { value: 'en', label: 'English' },
  { value: 'zh', label: '中文' },
];

type Words = Record<string, string>;
export type Values = Record<string, string | number>;
export interface Texts<K extends string> {
  readonly en: Readonly<Record<K, string>>;
  readonly zh: Readonly<Record<K, string>>;
}
export type Translate<K extends string> = (key: K, values?: Values) => string;

export function texts<const E extends Words>(en: E, zh: { readonly [K in keyof E]: string }): Texts<keyof E & string> {
  return { en, zh };
}

const PLACE = /\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g;

export function fill(text: string, values: Values | undefined): string {
  if (!values) return text;
  return text.replace(PLACE, (whole, name: string, one: string | undefined, many: string | undefined) => {
    const value = values[name];
    if (value === undefined) return whole;
    if (one === undefined) return typeof value === 'string' ? isolate(value) : String(value);
    return value === 1 ? one : (many ?? '');
  });
}

/** Requests ask for the server's words in this language. */
export function askIn(language: Language): void {
  setLanguageHeader(language === 'zh' ? 'zh-CN' : 'en');
}

interface LanguageState {
  language: Language;
  choose: (language: Language) => void;
}

const LanguageContext = createContext<LanguageState>({ language: 'en', choose: () => undefined });

export function LanguageProvider({ language, choose, children }: LanguageState & { children: ReactNode }) {
  askIn(language);
  useEffect(() => {
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
  }, [language]);
  return <LanguageContext value={useMemo(() => ({ language, choose }), [language, choose])}>{children}</LanguageContext>;
}

export function useLanguage(): LanguageState {
  return use(LanguageContext);
}

/** `t('key', {values})` of one page's words in the language chosen. */
export function useText<K extends string>(words: Texts<K>): Translate<K> {
  const { language } = use(LanguageContext);
  return useMemo(() => (key, values) => fill(words[language][key], values), [words, language]);
}

const LANGUAGE_KEY = 'berth-language';

/** What is asked in words comes in this language from now on, in this browser. */
export function keepLanguage(language: Language): void {
  localStorage.setItem(LANGUAGE_KEY, language);
}

/** The language to begin with: what was chosen before, else the browser's. */
export function startLanguage(): Language {
  return firstLanguage(localStorage.getItem(LANGUAGE_KEY), navigator.languages);
}

/** A language where one was chosen, else the first that a browser asks for and that there is. */
export function firstLanguage(stored: string | null, browser: readonly string[]): Language {
  if (stored === 'en' || stored === 'zh') return stored;
  const known = browser.map((name) => name.toLowerCase()).find((name) => name.startsWith('zh') || name.startsWith('en'));
  return known?.startsWith('zh') ? 'zh' : 'en';
}
