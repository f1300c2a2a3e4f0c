/** Tokens with what they may do, when they were used last and until when they hold; each revoked in place. */

import { Switch, Table, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { SmallTable } from '@/ui/SmallTable';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';

import { words } from './text';

export type Token = Schemas['TokenOut'];
export const TOKENS = ['tokens'] as const;

/** Those that hold; the others when they are asked for. `empty` stands where none holds. */
export function TokenList({ tokens, empty }: { tokens: readonly Token[]; empty: ReactNode }) {
  const t = useText(words);
  const [withOver, setWithOver] = useState(false);
  const shown = tokens.filter((token) => withOver || !isOver(token));
  return (
    <>
      {tokens.some(isOver) && <Switch label={t('showRevoked')} checked={withOver} onChange={(event) => setWithOver(event.currentTarget.checked)} />}
      {shown.length > 0 ? <List tokens={shown} /> : empty}
    </>
  );
}

function List({ tokens }: { tokens: readonly Token[] }) {
  const t = useText(words);
  const c = useText(common);
  const { who } = useSession();
  const cache = useQueryClient();
  const revoke = (token_id: string) => async () => {
    await take(api.DELETE('/api/v1/tokens/{token_id}', { params: { path: { token_id } } }));
    await cache.invalidateQueries({ queryKey: TOKENS });
  };
  return (
    <SmallTable label={t('tokens')} head={[c('name'), t('scopes'), t('lastUsed'), t('expires'), c('state'), '']} minWidth={720}>
      {tokens.map((token) => (
        <Table.Tr key={token.id}>
          <Table.Td style={{ overflowWrap: 'anywhere' }}>
            {token.name}{' '}
            <Text size="xs" c="dimmed">
              {token.prefix}…{token.user.id !== who.user.id ? ` · ${token.user.name}` : ''}
            </Text>
          </Table.Td>
          <Table.Td>
            <Text size="sm">{token.scopes.map((scope) => t(`scope_${scope}`)).join(', ')}</Text>
          </Table.Td>
          <Table.Td>{token.last_used_at ? <When at={token.last_used_at} /> : t('never')}</Table.Td>
          <Table.Td>
            <When at={token.expires_at} />
          </Table.Td>
          <Table.Td>
            <Mark icon={isOver(token) ? 'cross' : 'check'} color={isOver(token) ? 'gray' : 'teal'} label={t(token.revoked_at ? 'revoked' : isOver(token) ? 'expired' : 'active')} size="sm" />
          </Table.Td>
          <Table.Td ta="right">
            {!isOver(token) && (
              <Confirm label={t('revoke')} title={t('revoke')} color="red" variant="subtle" size="xs" act={revoke(token.id)}>
                {t('revokeAsk', { name: token.name })}
              </Confirm>
            )}
          </Table.Td>
        </Table.Tr>
      ))}
    </SmallTable>
  );
}

/** Asked when a row is drawn: a clock that ticks would draw all of them each second. */
function isOver(token: Token): boolean {
  return token.revoked_at !== null || Date.parse(token.expires_at) <= Date.now();
}
