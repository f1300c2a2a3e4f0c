/**
 * Approves a command line's sign-in (RFC 8628).
 *
 * The trap of this flow is a code that somebody else sent: the page shows who asks, from where and since when, says so in words,
 * and never approves by itself, not even with the code in its address.
 */

import { Alert, Anchor, Button, Code, Group, Paper, Stack, Table, Text, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { Link, useSearchParams } from 'react-router';

import { api, take } from '@/api/client';
import { asProblem } from '@/api/problem';
import { useSession } from '@/api/session';
import { useText } from '@/text/language';
import { Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Said } from '@/ui/Said';
import { When } from '@/ui/Times';

import { isWhole, tidy } from './code';
import { words } from './text';

export default function Device() {
  const t = useText(words);
  const [search, setSearch] = useSearchParams();
  const [end, setEnd] = useState<'approved' | 'denied' | null>(null);
  const code = tidy(search.get('code') ?? '');
  const again = () => {
    setEnd(null);
    setSearch({}, { replace: true });
  };
  return (
    <Page title={t('title')}>
      <Paper withBorder p="lg" maw={560} w="100%">
        {end ? (
          <Stack>
            <Alert color={end === 'approved' ? 'teal' : 'gray'} icon={<Icon name={end === 'approved' ? 'check' : 'cross'} />} title={t(end === 'approved' ? 'approvedTitle' : 'deniedTitle')} role="status">
              {t(end)}
            </Alert>
            <Group>
              <Anchor component={Link} to="/account?tab=tokens" size="sm">
                {t('tokens')}
              </Anchor>
              <Button variant="subtle" size="compact-sm" onClick={again}>
                {t('another')}
              </Button>
            </Group>
          </Stack>
        ) : isWhole(code) ? (
          <Ask code={code} again={again} done={setEnd} />
        ) : (
          <Enter begin={code} take={(whole) => setSearch({ code: whole })} />
        )}
      </Paper>
    </Page>
  );
}

function Enter({ begin, take: use }: { begin: string; take: (code: string) => void }) {
  const t = useText(words);
  const [text, setText] = useState(begin);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isWhole(text)) use(text);
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Text>
          <Said text={t('enter')} />
        </Text>
        <TextInput label={t('code')} description={t('codeHint')} value={text} onChange={(event) => setText(tidy(event.currentTarget.value))} autoComplete="off" autoCapitalize="characters" spellCheck={false} size="lg" ff="monospace" autoFocus required />
        <Group justify="flex-end">
          <Button type="submit" disabled={!isWhole(text)}>
            {t('look')}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Ask({ code, again, done }: { code: string; again: () => void; done: (end: 'approved' | 'denied') => void }) {
  const t = useText(words);
  const { who } = useSession();
  const [busy, setBusy] = useState<'approved' | 'denied' | null>(null);
  const [error, setError] = useState<unknown>(null);
  const path = { user_code: code };
  const asked = useQuery({ queryKey: ['device-code', code], retry: false, staleTime: 30_000, refetchOnWindowFocus: false, queryFn: () => take(api.GET('/api/v1/device-codes/{user_code}', { params: { path } })) });
  const act = async (end: 'approved' | 'denied') => {
    setBusy(end);
    setError(null);
    try {
      if (end === 'approved') await take(api.POST('/api/v1/device-codes/{user_code}/approve', { params: { path } }));
      else await take(api.POST('/api/v1/device-codes/{user_code}/deny', { params: { path } }));
      done(end);
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(null);
    }
  };
  if (asked.isPending) return <Loading />;
  if (asked.error) {
    return (
      <Stack>
        {asProblem(asked.error).status === 404 ? (
          <Alert color="gray" icon={<Icon name="alert" />} title={t('unknownTitle')} role="alert">
            <Said text={t('unknown')} />
          </Alert>
        ) : (
          <ProblemView error={asked.error} retry={() => void asked.refetch()} />
        )}
        <Group>
          <Button variant="default" onClick={again}>
            {t('another')}
          </Button>
        </Group>
      </Stack>
    );
  }
  const { data } = asked;
  return (
    <Stack>
      <Title order={2} size="h4">
        {t('compare')}
      </Title>
      <Code block fz="xl" fw={700} ta="center">
        {data.user_code}
      </Code>
      <Text>{t('compareText')}</Text>
      <Table variant="vertical" withRowBorders={false}>
        <Table.Tbody>
          <Table.Tr>
            <Table.Th w={170}>{t('program')}</Table.Th>
            <Table.Td style={{ overflowWrap: 'anywhere' }}>
              {data.client}{' '}
              <Text size="xs" c="dimmed" span>
                ({t('claims')})
              </Text>
            </Table.Td>
          </Table.Tr>
          <Table.Tr>
            <Table.Th>{t('address')}</Table.Th>
            <Table.Td>{data.address}</Table.Td>
          </Table.Tr>
          <Table.Tr>
            <Table.Th>{t('asked')}</Table.Th>
            <Table.Td>
              <When at={data.created_at} />
            </Table.Td>
          </Table.Tr>
          <Table.Tr>
            <Table.Th>{t('expires')}</Table.Th>
            <Table.Td>
              <When at={data.expires_at} />
            </Table.Td>
          </Table.Tr>
          <Table.Tr>
            <Table.Th>{t('you')}</Table.Th>
            <Table.Td>{who.user.name}</Table.Td>
          </Table.Tr>
        </Table.Tbody>
      </Table>
      <Alert color="yellow" icon={<Icon name="alert" />}>
        {t('warning')}
      </Alert>
      {error !== null && <ProblemView error={error} />}
      <Group justify="flex-end">
        <Button variant="default" loading={busy === 'denied'} onClick={() => void act('denied')}>
          {t('deny')}
        </Button>
        <Button loading={busy === 'approved'} onClick={() => void act('approved')}>
          {t('approve')}
        </Button>
      </Group>
    </Stack>
  );
}
