/** Tokens for programs: made here, shown once, revoked at once. */

import { Alert, Button, Checkbox, Code, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take } from '@/api/client';
import { usePaged } from '@/api/paging';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { quote } from '@/ui/CopyAs';
import { Form } from '@/ui/Dialog';
import { Empty } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { PagedView } from '@/ui/PagedView';
import { Secret } from '@/ui/Secret';
import { Window } from '@/ui/Window';

import { TOKENS, TokenList, type Token } from './TokenList';
import { words } from './text';

const PAGE = 100;
const SCOPES = ['all', 'read', 'jobs', 'data', 'tenant', 'account', 'operate'] as const;
type Scope = (typeof SCOPES)[number];
const DAYS = [7, 30, 90, 365] as const;
const DAY_MS = 86_400_000;
const SPARE_MS = 600_000; // The server allows a year at most; its clock may be a little ahead.

export default function Tokens() {
  const t = useText(words);
  const tokens = usePaged<Token>(TOKENS, (cursor) => take(api.GET('/api/v1/tokens', { params: { query: { limit: PAGE, cursor } } })));
  const [isMaking, setMaking] = useState(false);
  const make = (
    <Button leftSection={<Icon name="submit" size={16} />} aria-haspopup="dialog" onClick={() => setMaking(true)}>
      {t('makeToken')}
    </Button>
  );
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed" size="sm">
          {t('tokensText')}
        </Text>
        {make}
      </Group>
      <PagedView list={tokens} empty={<None />}>
        {(rows) => <TokenList tokens={rows} empty={tokens.hasMore ? null : <None />} />}
      </PagedView>
      {isMaking && <Make close={() => setMaking(false)} />}
    </Stack>
  );
}

function None() {
  const t = useText(words);
  return (
    <Empty icon="key" title={t('tokensNone')} command={`berth login --server ${quote(location.origin)}`}>
      {t('tokensNoneHint')}
    </Empty>
  );
}

function Make({ close }: { close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const { isOperator } = useSession();
  const cache = useQueryClient();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<Scope[]>(['all']);
  const [days, setDays] = useState('90');
  const [made, setMade] = useState<string | null>(null);
  const submit = async () => {
    const expires_at = new Date(Date.now() + Number(days) * DAY_MS - SPARE_MS).toISOString();
    setMade((await take(api.POST('/api/v1/tokens', { body: { name: name.trim(), scopes, expires_at } }))).token);
    void cache.invalidateQueries({ queryKey: TOKENS });
  };
  return (
    <Window onClose={close} size="lg" title={made ? t('newToken') : t('makeToken')} closeOnClickOutside={!made}>
      {made ? (
        <Stack>
          <Alert color="yellow" icon={<Icon name="alert" />}>
            {t('newTokenText')}
          </Alert>
          <Secret text={made} />
          <Text size="sm" fw={600}>
            {t('useIt')}
          </Text>
          <Code block>{`berth login --server ${quote(location.origin)}\nexport BERTH_TOKEN=...`}</Code>
          <Group justify="flex-end">
            <Button onClick={close}>{c('close')}</Button>
          </Group>
        </Stack>
      ) : (
        <Form submit={submit} onCancel={close} label={t('makeToken')} isReady={scopes.length > 0}>
          {(at) => (
            <>
              <TextInput label={t('tokenName')} value={name} maxLength={100} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required />
              <Checkbox.Group label={t('scopes')} value={scopes} onChange={(values) => setScopes(narrow(values, scopes))} error={at('/scopes')} required>
                <Stack gap={6} mt={6}>
                  {SCOPES.filter((scope) => scope !== 'operate' || isOperator).map((scope) => (
                    <Checkbox key={scope} value={scope} label={t(`scope_${scope}`)} />
                  ))}
                </Stack>
              </Checkbox.Group>
              <Select label={t('expiresIn')} allowDeselect={false} data={DAYS.map((count) => ({ value: String(count), label: count === 365 ? t('year') : t('days', { count }) }))} value={days} onChange={(value) => setDays(value ?? '90')} error={at('/expires_at')} />
            </>
          )}
        </Form>
      )}
    </Window>
  );
}

/** `all` stands alone: choosing it drops the others, choosing another drops it. */
function narrow(values: readonly string[], before: readonly Scope[]): Scope[] {
  const chosen = SCOPES.filter((scope) => values.includes(scope));
  if (!chosen.includes('all') || chosen.length === 1) return chosen;
  return before.includes('all') ? chosen.filter((scope) => scope !== 'all') : ['all'];
}
