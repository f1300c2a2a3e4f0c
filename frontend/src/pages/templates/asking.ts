/** The calls of templates. */

import { useQuery, type UseQueryResult } from '@tanstack/react-query';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import type { Language } from '@/text/language';

export type Template = Schemas['TemplateOut'];
export type Parameter = Schemas['ParameterOut'];
type Rendered = Schemas['RenderOut'];
const TESTING_MS = 5_000; // A test run has no events of its template's.
export type Value = string | number | boolean | null;

export function useTemplate(id: string): UseQueryResult<Template> {
  return useQuery({ queryKey: ['templates', 'one', id], refetchInterval: (query) => (query.state.data?.test.result === 'running' ? TESTING_MS : false), queryFn: () => take(api.GET('/api/v1/templates/{template_id}', { params: { path: { template_id: id } } })) });
}

export function render(id: string, body: { parameters: Record<string, Value>; name: string; queue: string; tenant: string | null; preview: boolean }, signal?: AbortSignal): Promise<Rendered> {
  return take(api.POST('/api/v1/templates/{template_id}/render', { params: { path: { template_id: id } }, body, signal }));
}

export async function publish(id: string): Promise<void> {
  await take(api.POST('/api/v1/templates/{template_id}/publish', { params: { path: { template_id: id } } }));
  await queries.invalidateQueries({ queryKey: ['templates'] });
}

export async function startTest(id: string, tenant: string): Promise<void> {
  await take(api.POST('/api/v1/templates/{template_id}/test', { params: { path: { template_id: id } }, body: { tenant, queue: '' } }));
  await queries.invalidateQueries({ queryKey: ['templates'] });
}

export async function remove(id: string): Promise<void> {
  await api.DELETE('/api/v1/templates/{template_id}', { params: { path: { template_id: id } } });
  queries.removeQueries({ queryKey: ['templates', 'one', id] });
  await queries.invalidateQueries({ queryKey: ['templates', 'list'] });
}

/** A template's words in the reader's language, where it has them. */
export function inLanguage(row: { title: string; title_zh: string; description: string; description_zh: string }, language: Language): { title: string; description: string } {
  return { title: (language === 'zh' && row.title_zh) || row.title, description: (language === 'zh' && row.description_zh) || row.description };
}
