/**
 * Where the link of an invitation leads: it makes an account, or adds a tenant to the account that is signed in.
 *
 * The code stands behind the `#` of the address, which no server and no log ever sees, and is taken out of it at once.
 */

import { Alert, Anchor, Center, Paper, Stack, Text, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useNavigate } from 'react-router';

import { api, take } from '@/api/client';
import { asProblem } from '@/api/problem';
import { queries } from '@/api/query';
import { SESSION_KEY, signIn, type Who } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Form } from '@/ui/Dialog';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { PasswordField } from '@/ui/PasswordField';
import { Said } from '@/ui/Said';

import { words } from './text';

/** As codes begin, and long enough to be whole: one that is being typed is not asked about. */
const CODE = /^bi_[\w-]{40,}$/;

export default function Invitation() {
  const t = useText(words);
  const c = useText(common);
  const navigate = useNavigate();
  const who = queries.getQueryData<Who | null>(SESSION_KEY) ?? null;
  const [code, setCode] = useState(() => decodeURIComponent(location.hash.slice(1)));
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [again, setAgain] = useState('');
  useEffect(() => {
    document.title = `${t('title')} · Berth`;
    if (location.hash) history.replaceState(history.state, '', location.pathname);
  }, [t]);
  const given = code.trim();
  const asked = useQuery({ queryKey: ['invitation', given], enabled: CODE.test(given), retry: false, staleTime: Infinity, queryFn: () => take(api.POST('/api/v1/invitations:read', { body: { token: given } })) });
  const offer = asked.data;
  const ownName = offer?.name ?? null; // Of an account that waits for its first password: it cannot be another.
  const userName = ownName ?? name.trim();
  const isDifferent = again !== '' && again !== password;
  const submit = async () => {
    const made = await take(api.POST('/api/v1/invitations:accept', { body: { token: given, name: who ? '' : userName, password: who ? '' : password, with_token: false } }));
    if (who) await queries.invalidateQueries();
    else await signIn({ name: userName, password });
    notify(t('joined', { tenant: made.tenant.name, role: c(made.role) }));
    void navigate('/'); // Where the first steps stand.
  };
  return (
    <Center component={who ? 'section' : 'main'} mih={who ? undefined : '100vh'} p="md">
      <Paper withBorder shadow="sm" radius="lg" p="xl" w="100%" maw={440}>
        <Stack>
          <Title order={1} size="h3">
            {t('title')}
          </Title>
          <Text size="sm" c="dimmed">
            {who ? t('introKnown', { name: who.user.name }) : ownName ? t('introNamed') : t('intro')}
          </Text>
          <div aria-live="polite">
            {offer && (
              <Alert icon={<Icon name="tenants" />} title={t('offer', { tenant: offer.tenant.name, role: c(offer.role) })}>
                {offer.invited_by ? t('offerBy', { email: offer.email, name: offer.invited_by.name }) : t('offerFor', { email: offer.email })}
              </Alert>
            )}
            {asked.error && (
              <Alert color="red" icon={<Icon name="alert" />}>
                <Said text={[asProblem(asked.error).detail, asProblem(asked.error).hint]} />
              </Alert>
            )}
          </div>
          <Form submit={submit} label={t('join')} isReady={given !== '' && (who !== null || (userName !== '' && password !== '' && again === password))}>
            {(at) => (
              <>
                <TextInput label={t('code')} description={t('codeHint')} value={code} onChange={(event) => setCode(event.currentTarget.value)} error={at('/token')} autoComplete="off" spellCheck={false} required />
                {!who && (
                  <>
                    <TextInput label={t('name')} value={ownName ?? name} readOnly={ownName !== null} description={ownName ? t('nameFixed') : undefined} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} autoComplete="username" required autoFocus />
                    <PasswordField label={t('password')} value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={at('/password')} autoComplete="new-password" required />
                    <PasswordField label={t('again')} value={again} onChange={(event) => setAgain(event.currentTarget.value)} error={isDifferent ? t('differs') : undefined} autoComplete="new-password" required />
                  </>
                )}
              </>
            )}
          </Form>
          {!who && (
            <Anchor size="sm" href="/sign-in">
              {t('have')}
            </Anchor>
          )}
        </Stack>
      </Paper>
    </Center>
  );
}
