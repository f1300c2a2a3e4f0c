/** The password, and what is asked for beside it. */

import { Alert, Button, Code, Group, Image, Paper, PinInput, SimpleGrid, Stack, Text, TextInput, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { methodsQuery, SESSION_KEY, useSession } from '@/api/session';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { CopyText } from '@/ui/CopyAs';
import { Form, refuse } from '@/ui/Dialog';
import { Answer, ProblemView } from '@/ui/Feedback';
import { save } from '@/ui/files';
import { Icon } from '@/ui/Icon';
import { notify } from '@/ui/notify';
import { PasswordField } from '@/ui/PasswordField';
import { Mark } from '@/ui/Status';
import { Window } from '@/ui/Window';

import { useDeed } from './deed';
import { words } from './text';

const FEW = 3;
const FACTOR = ['totp'] as const;
const PICTURE = 'data:image/svg+xml';

/** One matter of the page, with its heading. */
function Section({ title, hint, children }: { title: string; hint?: string; children: ReactNode }) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Stack>
        <Title order={2} size="h5">
          {title}
        </Title>
        {hint && (
          <Text size="sm" c="dimmed">
            {hint}
          </Text>
        )}
        {children}
      </Stack>
    </Paper>
  );
}

/** Only what the account can do: who has a password elsewhere changes it there, and who has none confirms nothing by it. */
export default function Security() {
  const kept = useSession().who.user.password_in;
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      {kept === 'here' ? <Password /> : <Elsewhere isInDirectory={kept === 'directory'} />}
      {kept && <Factor />}
      <Provider />
      {kept !== 'directory' && <Directory />}
    </SimpleGrid>
  );
}

function Elsewhere({ isInDirectory }: { isInDirectory: boolean }) {
  const t = useText(words);
  return (
    <Section title={t('password')}>
      <Text size="sm">{t(isInDirectory ? 'passwordDirectory' : 'passwordNone')}</Text>
    </Section>
  );
}

/** Where the organisation has a provider: this account is entered through it from then on, too. */
function Provider() {
  const t = useText(words);
  const { isBusy, problem, run } = useDeed();
  const methods = useQuery(methodsQuery);
  const oidc = methods.data?.oidc;
  if (!oidc) return null;
  const connect = () => run(async () => window.location.assign((await take(api.POST('/api/v1/identities:connect'))).url));
  return (
    <Section title={oidc.name} hint={t('providerText', { name: oidc.name })}>
      {problem && <ProblemView error={problem} />}
      <Button w="fit-content" variant="default" loading={isBusy} onClick={() => void connect()} leftSection={<Icon name="key" size={16} />}>
        {t('providerConnect', { name: oidc.name })}
      </Button>
    </Section>
  );
}

/** Where the organisation has a directory: this account is entered by its password from then on, too. */
function Directory() {
  const t = useText(words);
  const cache = useQueryClient();
  const methods = useQuery(methodsQuery);
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  if (!methods.data?.directory) return null;
  const submit = async () => {
    await take(api.POST('/api/v1/identities:connect-directory', { body: { name: name.trim(), password } }));
    setName('');
    setPassword('');
    notify(t('directoryConnected'));
    await cache.invalidateQueries({ queryKey: SESSION_KEY }); // Whoever had no password has one to show from now on.
  };
  return (
    <Section title={t('directory')} hint={t('directoryText')}>
      <Form submit={submit} label={t('directoryConnect')}>
        {(at) => (
          <>
            <TextInput label={t('directoryName')} autoComplete="off" value={name} onChange={(event) => setName(event.currentTarget.value)} error={at('/name')} required />
            <PasswordField label={t('directoryPassword')} autoComplete="off" value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={at('/password')} required />
          </>
        )}
      </Form>
    </Section>
  );
}

function Password() {
  const t = useText(words);
  const [current, setCurrent] = useState('');
  const [fresh, setFresh] = useState('');
  const [again, setAgain] = useState('');
  const differs = again !== '' && again !== fresh;
  const submit = async () => {
    refuse({ '/again': again === '' && t('mismatch') });
    await take(api.POST('/api/v1/password', { body: { current, new: fresh } }));
    setCurrent('');
    setFresh('');
    setAgain('');
    notify(t('changed'));
  };
  return (
    <Section title={t('password')} hint={t('passwordText')}>
      <Form submit={submit} label={t('change')} isReady={!differs}>
        {(at) => (
          <>
            <PasswordField label={t('current')} autoComplete="current-password" value={current} onChange={(event) => setCurrent(event.currentTarget.value)} error={at('/current')} required />
            <PasswordField label={t('new')} autoComplete="new-password" value={fresh} onChange={(event) => setFresh(event.currentTarget.value)} error={at('/new')} required />
            <PasswordField label={t('again')} autoComplete="new-password" value={again} onChange={(event) => setAgain(event.currentTarget.value)} error={differs ? t('mismatch') : at('/again')} required />
          </>
        )}
      </Form>
    </Section>
  );
}

function Factor() {
  const t = useText(words);
  const factor = useQuery({ queryKey: FACTOR, queryFn: () => take(api.GET('/api/v1/totp')) });
  const [open, setOpen] = useState<'add' | 'remove' | null>(null);
  return (
    <Paper withBorder p="md" component="section" aria-label={t('factor')}>
      <Stack>
        <Title order={2} size="h5">
          {t('factor')}
        </Title>
        <Answer query={factor} lines={2}>
          {(state) => (
            <Stack>
              <Group gap="sm" wrap="nowrap">
                <Mark icon={state.enabled ? 'check' : 'cross'} color={state.enabled ? 'teal' : 'gray'} label={t(state.enabled ? 'on' : 'off')} />
                <Text size="sm">{state.enabled ? t('factorOn', { count: state.recovery_codes_left }) : t('factorOff')}</Text>
              </Group>
              {state.enabled && state.recovery_codes_left < FEW && (
                <Alert color="yellow" icon={<Icon name="alert" />}>
                  {t('factorFew')}
                </Alert>
              )}
              <Group>
                {state.enabled ? (
                  <Button color="red" variant="light" aria-haspopup="dialog" onClick={() => setOpen('remove')}>
                    {t('remove')}
                  </Button>
                ) : (
                  <Button aria-haspopup="dialog" onClick={() => setOpen('add')} leftSection={<Icon name="key" size={16} />}>
                    {t('setUp')}
                  </Button>
                )}
              </Group>
            </Stack>
          )}
        </Answer>
      </Stack>
      {open === 'add' && <Enrol close={() => setOpen(null)} />}
      {open === 'remove' && <Remove close={() => setOpen(null)} />}
    </Paper>
  );
}

/** Password, then the secret and a first code of it, then the recovery codes. */
function Enrol({ close }: { close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const cache = useQueryClient();
  const { isBusy, problem, run } = useDeed();
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const [enrolment, setEnrolment] = useState<Schemas['EnrolmentOut'] | null>(null);
  const [made, setMade] = useState<Schemas['RecoveryCodesOut'] | null>(null);
  const begin = async () => setEnrolment(await take(api.POST('/api/v1/totp', { body: { password } })));
  const confirm = async (text: string) => {
    const done = await run(async () => setMade(await take(api.POST('/api/v1/totp:confirm', { body: { code: text } }))));
    if (done) void cache.invalidateQueries({ queryKey: FACTOR });
    else setCode('');
  };
  return (
    <Window onClose={close} title={made ? t('recovery') : t('factor')} closeOnClickOutside={!made}>
      {made ? (
        <Stack>
          <Alert color="yellow" icon={<Icon name="alert" />}>
            {t('recoveryText')}
          </Alert>
          {made.sessions_ended > 0 && <Text size="sm">{t('factorEnded', { count: made.sessions_ended })}</Text>}
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs">
            {made.recovery_codes.map((each) => (
              <Code key={each} block>
                {each}
              </Code>
            ))}
          </SimpleGrid>
          <Group justify="space-between">
            <Group gap="xs">
              <CopyText text={made.recovery_codes.join('\n')} />
              <Button variant="default" leftSection={<Icon name="download" size={16} />} onClick={() => save('berth-recovery-codes.txt', `${made.recovery_codes.join('\n')}\n`)}>
                {c('download')}
              </Button>
            </Group>
            <Button onClick={close}>{t('kept')}</Button>
          </Group>
        </Stack>
      ) : enrolment ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void confirm(code);
          }}
        >
          <Stack align="center">
            <Text size="sm">{t('scan')}</Text>
            {enrolment.qr_svg.startsWith(PICTURE) && <Image src={enrolment.qr_svg} alt={t('qrAlt')} w={220} h={220} bg="white" p={8} radius="md" />}
            <Group gap={4} wrap="nowrap">
              <Text size="sm">{t('secret')}</Text>
              <Code style={{ overflowWrap: 'anywhere' }}>{enrolment.secret}</Code>
              <CopyText text={enrolment.secret} />
            </Group>
            <Text size="sm" fw={600} id="totp-code">
              {t('codeNow')}
            </Text>
            <PinInput length={6} type="number" oneTimeCode value={code} onChange={setCode} onComplete={(text) => void confirm(text)} aria-labelledby="totp-code" aria-label={t('codeNow')} error={problem !== null} data-autofocus />
            {problem && <ProblemView error={problem} />}
            <Button type="submit" loading={isBusy} disabled={code.length < 6} fullWidth>
              {t('confirm')}
            </Button>
          </Stack>
        </form>
      ) : (
        <Form submit={begin} onCancel={close} label={t('next')}>
          {(at) => <PasswordField label={t('askPassword')} autoComplete="current-password" value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={at('/password')} required />}
        </Form>
      )}
    </Window>
  );
}

function Remove({ close }: { close: () => void }) {
  const t = useText(words);
  const cache = useQueryClient();
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const submit = async () => {
    await take(api.DELETE('/api/v1/totp', { body: { password, code: code.trim() } }));
    void cache.invalidateQueries({ queryKey: FACTOR });
    notify(t('removed'));
    close();
  };
  return (
    <Window onClose={close} title={t('remove')}>
      <Form submit={submit} onCancel={close} label={t('remove')} color="red">
        {(at) => (
          <>
            <Text size="sm">{t('removeText')}</Text>
            <PasswordField label={t('askPassword')} autoComplete="current-password" value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={at('/password')} required />
            <TextInput label={t('removeCode')} autoComplete="one-time-code" value={code} onChange={(event) => setCode(event.currentTarget.value)} error={at('/code')} required />
          </>
        )}
      </Form>
    </Window>
  );
}
