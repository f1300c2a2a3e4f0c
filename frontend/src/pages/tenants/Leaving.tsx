/** What a user leaves who is removed or disabled, and what becomes of it: held, handed to another member, or stopped. */

import { Autocomplete, List, Loader, Radio, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { useText, type Translate } from '@/text/language';
import { Form } from '@/ui/Dialog';
import { ProblemView } from '@/ui/Feedback';

import { words } from './leavingText';

type Left = Schemas['LeftOut'];
type Kind = Schemas['LeftKindOut'];
const CHOICES = ['hold', 'hand_over', 'stop'] as const;
type Choice = (typeof CHOICES)[number];

/** As the API takes it: in the query of a removal, in the body of a change. */
export type Settlement = { stop_jobs?: true; hand_to?: string };

export function LeavingForm({ hint, label, queryKey, read, act, close }: { hint: string; label: string; queryKey: readonly string[]; read: () => Promise<Left>; act: (settlement: Settlement) => Promise<unknown>; close: () => void }) {
  const t = useText(words);
  const [choice, setChoice] = useState<Choice>('hold');
  const [heir, setHeir] = useState('');
  const left = useQuery({ queryKey, queryFn: read, gcTime: 0 });
  const people = useQuery({ queryKey: ['users', 'known'], queryFn: () => take(api.GET('/api/v1/users', { params: { query: { limit: 500 } } })), enabled: choice === 'hand_over' });
  const kinds = left.data?.kinds.filter((kind) => kind.count > 0) ?? [];
  const submit = async () => {
    await act(choice === 'stop' ? { stop_jobs: true } : choice === 'hand_over' ? { hand_to: heir.trim() } : {});
    close();
  };
  return (
    <Form submit={submit} onCancel={close} label={label} color="red" isReady={choice !== 'hand_over' || heir.trim() !== ''}>
      {(at) => (
        <Stack>
          <Text>{hint}</Text>
          {left.isPending && <Loader size="sm" aria-label={t('looking')} />}
          {left.error && <ProblemView error={left.error} />}
          {left.data && (kinds.length > 0 ? <Kinds kinds={kinds} /> : <Text c="dimmed">{t('nothing')}</Text>)}
          <Radio.Group label={t('whatBecomes')} value={choice} onChange={(value) => setChoice(value as Choice)}>
            <Stack gap="xs" mt="xs">
              {CHOICES.map((each) => (
                <Radio key={each} value={each} label={t(each)} description={t(`${each}Means`)} />
              ))}
            </Stack>
          </Radio.Group>
          {choice === 'hand_over' && (
            <Autocomplete label={t('heir')} description={t('heirHint')} data={(people.data?.items ?? []).filter((user) => user.is_active && user.id !== left.data?.user.id).map((user) => user.name)} limit={8} value={heir} onChange={setHeir} error={at('/hand_to')} required />
          )}
        </Stack>
      )}
    </Form>
  );
}

function Kinds({ kinds }: { kinds: readonly Kind[] }) {
  const t = useText(words);
  return (
    <List size="sm" aria-label={t('leaves')}>
      {kinds.map((kind) => (
        <List.Item key={kind.kind}>
          <Text size="sm" span fw={500}>
            {named(t, kind)}
          </Text>
          {kind.first.length > 0 && (
            <Text size="sm" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
              {kind.first.map((item) => item.name).join(', ')}
              {kind.count > kind.first.length && ', …'}
            </Text>
          )}
        </List.Item>
      ))}
    </List>
  );
}

const KINDS = ['running', 'waiting', 'templates', 'volumes', 'images', 'bookings', 'tokens'] as const;
const isKnown = (kind: string): kind is (typeof KINDS)[number] => (KINDS as readonly string[]).includes(kind);

/** A kind that a newer server knows is shown by its name. */
function named(t: Translate<(typeof KINDS)[number]>, { kind, count }: Kind): string {
  return isKnown(kind) ? t(kind, { count }) : `${count} ${kind}`;
}
