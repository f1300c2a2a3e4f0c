/** A token made where it is needed: for a while, for a purpose, shown once. */

import { Alert, Anchor, Button, Checkbox, Code, Group, NativeSelect, Paper, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useRef, useState } from 'react';
import { Link } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { asProblem } from '@/api/problem';
import { queries } from '@/api/query';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyText } from '@/ui/CopyAs';
import { ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';

import { words } from './text';

type Made = Schemas['NewTokenOut'];
const SCOPES = ['read', 'jobs', 'data'] as const;
const HOUR_MS = 3_600_000;
const LIVES = [1, 8, 24, 24 * 7, 24 * 30] as const;

export function Token({ made, setMade, isInCell, setInCell }: { made: Made | null; setMade: (made: Made | null) => void; isInCell: boolean; setInCell: (isIn: boolean) => void }) {
  const t = useText(words);
  const format = useFormat();
  const [name, setName] = useState('notebook');
  const [hours, setHours] = useState<number>(8);
  const [scopes, setScopes] = useState<string[]>(['read', 'jobs']);
  const [failure, setFailure] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const inFlight = useRef(false);
  const problem = failure === null ? null : asProblem(failure);
  const make = async () => {
    if (inFlight.current) return;
    inFlight.current = true;
    setBusy(true);
    setFailure(null);
    try {
      setMade(await take(api.POST('/api/v1/tokens', { body: { name: name.trim(), scopes, expires_at: new Date(Date.now() + hours * HOUR_MS).toISOString() } })));
      void queries.invalidateQueries({ queryKey: ['tokens'] });
    } catch (error) {
      setFailure(error);
    } finally {
      inFlight.current = false;
      setBusy(false);
    }
  };
  return (
    <Paper withBorder p="md" component="section" aria-label={t('tokenTitle')}>
      <Stack gap="sm">
        <Group justify="space-between">
          <Text component="h2" fw={600} size="md">
            {t('tokenTitle')}
          </Text>
          <Anchor component={Link} to="/account/tokens" size="sm">
            {t('allTokens')}
          </Anchor>
        </Group>
        <Text size="sm" c="dimmed">
          {t('tokenHint')}
        </Text>
        {made ? (
          <>
            <Alert color="teal" icon={<Icon name="key" />} title={t('made')} p="sm" role="status" styles={{ title: { color: 'var(--mantine-color-text)' } }}>
              <Group gap="xs" wrap="nowrap">
                <Code style={{ overflowWrap: 'anywhere', fontSize: 13 }} aria-label={t('token')}>
                  {made.token}
                </Code>
                <CopyText text={made.token} label={t('copyToken')} />
              </Group>
              <Text size="sm" mt={4}>
                {t('madeHint', { until: format.timeWithZone(made.expires_at) })}
              </Text>
            </Alert>
            <Checkbox label={t('inCell')} description={t('inCellHint')} checked={isInCell} onChange={(event) => setInCell(event.currentTarget.checked)} />
            <Group>
              <Confirm
                label={t('revoke')}
                title={t('revokeTitle')}
                size="compact-sm"
                variant="light"
                color="red"
                act={async () => {
                  await api.DELETE('/api/v1/tokens/{token_id}', { params: { path: { token_id: made.id } } });
                  void queries.invalidateQueries({ queryKey: ['tokens'] });
                  setInCell(false);
                  setMade(null);
                  notify(t('revoked'));
                }}
              >
                {t('revokeHint')}
              </Confirm>
            </Group>
          </>
        ) : (
          <>
            {problem && problem.fields.length === 0 && <ProblemView error={failure} />}
            <SimpleGrid cols={{ base: 1, xs: 2 }}>
              <TextInput label={t('tokenName')} value={name} onChange={(event) => setName(event.currentTarget.value)} error={problem?.at('/name')} maxLength={100} />
              <NativeSelect label={t('tokenFor')} value={String(hours)} onChange={(event) => setHours(Number(event.currentTarget.value))} data={LIVES.map((life) => ({ value: String(life), label: life < 24 ? t('hours', { count: life }) : t('days', { count: life / 24 }) }))} error={problem?.at('/expires_at')} />
            </SimpleGrid>
            <Checkbox.Group label={t('scopes')} value={scopes} onChange={setScopes} error={problem?.fields.find((field) => field.path.startsWith('/scopes'))?.message}>
              <Stack gap={6} mt={4}>
                {SCOPES.map((scope) => (
                  <Checkbox key={scope} value={scope} label={t(`scope_${scope}`)} description={t(`scope_${scope}Hint`)} />
                ))}
              </Stack>
            </Checkbox.Group>
            <Group>
              <Button onClick={() => void make()} loading={isBusy} disabled={name.trim() === '' || scopes.length === 0} leftSection={<Icon name="key" size={16} />}>
                {t('make')}
              </Button>
            </Group>
          </>
        )}
      </Stack>
    </Paper>
  );
}
