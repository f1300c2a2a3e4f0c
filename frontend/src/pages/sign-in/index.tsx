/** The way in: name and password, the second factor where there is one, or the organisation's own provider. */

import { Alert, Anchor, Button, Center, Divider, Group, Paper, Stack, Text, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState, type FormEvent } from 'react';
import { useSearchParams } from 'react-router';

import { isDraftKept } from '@/api/drafts';
import { asProblem, type Problem } from '@/api/problem';
import { hasSessionEnded, methodsQuery, signIn } from '@/api/session';
import berth from '@/berth.svg';
import { LANGUAGES, useLanguage, useText } from '@/text/language';
import { ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { PasswordField } from '@/ui/PasswordField';
import { Said } from '@/ui/Said';

import { words } from './text';

export default function SignIn() {
  const t = useText(words);
  const [search] = useSearchParams();
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const [needsCode, setNeedsCode] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const methods = useQuery(methodsQuery);
  const failed = search.get('error');
  useEffect(() => {
    document.title = `${t('title')} · Berth`;
  }, [t]);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await signIn({ name: name.trim(), password, ...(needsCode ? { code: code.trim() } : {}) });
    } catch (error) {
      const refused = asProblem(error);
      if (refused.code === 'second_factor_required') setNeedsCode(true);
      else setProblem(refused);
    } finally {
      setBusy(false);
    }
  };
  const next = window.location.pathname === '/sign-in' ? '/' : window.location.pathname + window.location.search;

  return (
    <Center component="main" mih="100vh" p="md">
      <Paper withBorder shadow="sm" radius="lg" p="xl" w="100%" maw={420}>
        <form onSubmit={(event) => void submit(event)}>
          <Stack>
            <Group gap="sm" wrap="nowrap">
              <img src={berth} width={44} height={44} alt="" />
              <div>
                <Title order={1} size="h3">
                  Berth
                </Title>
                <Text size="sm" c="dimmed">
                  {t('slogan')}
                </Text>
              </div>
            </Group>
            {hasSessionEnded() && (
              <Alert color="yellow" icon={<Icon name="info" />} role="status">
                {t('ended')} {isDraftKept() && t('draftKept')}
              </Alert>
            )}
            {failed && (
              <Alert color="red" icon={<Icon name="alert" />} role="alert">
                {t('oidcFailed', { code: failed })}
              </Alert>
            )}
            {problem && <Refusal problem={problem} />}
            <TextInput label={t('name')} name="username" autoComplete="username" value={name} onChange={(event) => setName(event.currentTarget.value)} required autoFocus />
            <PasswordField label={t('password')} name="password" autoComplete="current-password" value={password} onChange={(event) => setPassword(event.currentTarget.value)} required />
            {needsCode && <TextInput label={t('code')} description={t('codeHint')} name="code" autoComplete="one-time-code" inputMode="numeric" value={code} onChange={(event) => setCode(event.currentTarget.value)} required autoFocus />}
            <Button type="submit" loading={isBusy} fullWidth>
              {t('signIn')}
            </Button>
            {methods.data?.oidc && (
              <>
                <Divider label={t('or')} />
                <Button component="a" variant="default" href={`${methods.data.oidc.url}?next=${encodeURIComponent(next)}`} leftSection={<Icon name="key" size={16} />}>
                  {t('oidc', { name: methods.data.oidc.name })}
                </Button>
              </>
            )}
            <Text size="xs" c="dimmed">
              <Said text={t('help')} />
            </Text>
            <LanguageChoice />
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}

function Refusal({ problem }: { problem: Problem }) {
  const t = useText(words);
  if (problem.code === 'bad_credentials' || problem.code === 'bad_code') return <Sorry text={t(problem.code)} />;
  if (problem.code === 'locked' || problem.status === 429) {
    return <Sorry text={problem.retryAfterSeconds ? t('locked', { seconds: problem.retryAfterSeconds }) : t('lockedSome')} />;
  }
  return <ProblemView error={problem} />;
}

function Sorry({ text }: { text: string }) {
  return (
    <Alert color="red" icon={<Icon name="alert" />} role="alert">
      {text}
    </Alert>
  );
}

function LanguageChoice() {
  const { language, choose } = useLanguage();
  return (
    <Group gap="md" justify="center">
      {LANGUAGES.map((choice) => (
        <Anchor key={choice.value} component="button" type="button" size="sm" lang={choice.value === 'zh' ? 'zh-CN' : 'en'} aria-current={choice.value === language} fw={choice.value === language ? 700 : 400} onClick={() => choose(choice.value)}>
          {choice.label}
        </Anchor>
      ))}
    </Group>
  );
}
