/** What operators and managers have to tell, above every page, until it is over or dismissed. */

import { Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { api, take, type Schemas } from '@/api/client';
import { queries } from '@/api/query';
import { Banner } from '@/pages/announcements/Banner';
import { words } from '@/pages/announcements/text';
import { useText } from '@/text/language';
import { notifyProblem } from '@/ui/notify';

type Page = Schemas['AnnouncementPage'];
const EVERY_MS = 60_000; // There is no event for it: its time comes by the clock.
const SHOWN = 4;
const KEY = ['announcements', 'shown'] as const;

export default function Announcements() {
  const t = useText(words);
  const query = useQuery({ queryKey: KEY, refetchInterval: EVERY_MS, queryFn: () => take(api.GET('/api/v1/announcements', { params: { query: { limit: 50 } } })) });
  const rows = (query.data?.items ?? []).filter((row) => !row.dismissed).slice(0, SHOWN);
  if (rows.length === 0) return null;
  const dismiss = (id: string) => {
    queries.setQueryData<Page>(KEY, (page) => page && { ...page, items: page.items.filter((row) => row.id !== id) });
    void api
      .POST('/api/v1/announcements/{announcement_id}/dismiss', { params: { path: { announcement_id: id } } })
      .catch(notifyProblem)
      .finally(() => void queries.invalidateQueries({ queryKey: ['announcements'] }));
  };
  return (
    <Stack gap="xs" mb="md" component="section" aria-label={t('bar')}>
      {rows.map((row) => (
        <Banner key={row.id} level={row.level} text={row.text} textZh={row.text_zh} tenant={row.tenant?.name ?? null} dismiss={() => dismiss(row.id)} />
      ))}
    </Stack>
  );
}
