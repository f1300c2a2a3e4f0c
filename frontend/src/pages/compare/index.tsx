/** Two runs side by side: how each ended, what it took and cost, what they asked for, and what they used over time. */

import { Alert, Anchor, Button, Group, Paper, SimpleGrid, Stack, Switch, Text, TextInput } from '@mantine/core';
import { useEffect, useState, type FormEvent } from 'react';
import { Link } from 'react-router';

import { asProblem } from '@/api/problem';
import { useAddress } from '@/app/address';
import { words as jobWords } from '@/pages/job/text';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { CopyAs, curl, quote, type Ways } from '@/ui/CopyAs';
import { Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Status } from '@/ui/Status';
import { When } from '@/ui/Times';

import classes from './Compare.module.css';
import { Curves } from './Curves';
import { Facts } from './FactTable';
import { Files } from './Files';
import { useSide, type Compared, type SideRead } from './sides';
import { words } from './text';

type Letter = 'A' | 'B';

export default function Compare() {
  const t = useText(words);
  const [search, put] = useAddress('step');
  const [a, b] = [search.get('a')?.trim() ?? '', search.get('b')?.trim() ?? ''];
  const older = useSide(a);
  const newer = useSide(b);
  const both = older.side && newer.side;
  const [, replace] = useAddress();
  const ids = both ? { a: older.side?.job.id, b: newer.side?.job.id } : null;
  useEffect(() => {
    // A name finds a job too; its events come under its id, and a name may be another job's tomorrow.
    if (ids && (ids.a !== a || ids.b !== b)) replace(ids);
  }, [ids, a, b, replace]);
  return (
    <Page
      wide
      title={older.side && newer.side ? t('titleOf', { a: older.side.job.name, b: newer.side.job.name }) : t('title')}
      actions={
        both && (
          <>
            <Button variant="default" leftSection={<Icon name="refresh" size={16} />} onClick={() => put({ a: b, b: a })}>
              {t('swap')}
            </Button>
            <CopyAs ways={() => waysOf(older.side?.job.id ?? a, newer.side?.job.id ?? b)} />
          </>
        )
      }
    >
      <Stack>
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <Head letter="A" name={a} read={older} />
          <Head letter="B" name={b} read={newer} />
        </SimpleGrid>
        {older.side && newer.side ? <Both a={older.side} b={newer.side} /> : <Choose key={`${a}\n${b}`} a={a} b={b} compare={(first, second) => put({ a: first, b: second })} />}
      </Stack>
    </Page>
  );
}

function Both({ a, b }: { a: Compared; b: Compared }) {
  const t = useText(words);
  const [isNarrow, setNarrow] = useState(false);
  return (
    <>
      {a.job.id === b.job.id && <Alert icon={<Icon name="info" />}>{t('sameJob')}</Alert>}
      <Switch label={t('onlyDifferences')} checked={isNarrow} onChange={(event) => setNarrow(event.currentTarget.checked)} />
      <Facts a={a} b={b} isNarrow={isNarrow} />
      <Curves a={a} b={b} />
      {a.fileError || b.fileError ? <ProblemView error={a.fileError ?? b.fileError} /> : a.file !== null && b.file !== null ? <Files a={a.file} b={b.file} isWhole={!isNarrow} /> : <Loading lines={8} />}
    </>
  );
}

function Head({ letter, name, read }: { letter: Letter; name: string; read: SideRead }) {
  const t = useText(words);
  const label = t(letter === 'A' ? 'runA' : 'runB');
  if (name === '') return null;
  if (read.error) {
    const isMissing = asProblem(read.error).status === 404;
    return isMissing ? (
      <Alert color="gray" icon={<Icon name="alert" />} role="alert" title={t('missing', { letter, name: name.slice(0, 80) })} styles={{ title: { overflowWrap: 'anywhere' } }}>
        {t('missingHint')}
      </Alert>
    ) : (
      <ProblemView error={read.error} title={t('notRead', { letter })} retry={read.retry} />
    );
  }
  if (!read.side) return <Loading lines={2} />;
  const { job } = read.side;
  return (
    <Paper withBorder p="md" component="section" aria-label={label}>
      <Group gap="sm" wrap="nowrap" align="flex-start">
        <span className={classes.letter} data-letter={letter} aria-hidden="true">
          {letter}
        </span>
        <Stack gap={6} miw={0}>
          <Anchor component={Link} to={`/jobs/${job.id}`} fw={600} style={{ overflowWrap: 'anywhere' }}>
            <bdi>{job.name}</bdi>
          </Anchor>
          <Group gap="xs">
            <Status state={job.state} />
            <Text size="sm" c="dimmed">
              <bdi>{job.tenant.name}</bdi> · {job.user.name} · {t('submitted')} <When at={job.submitted_at} />
            </Text>
          </Group>
          <Origin side={read.side} />
        </Stack>
      </Group>
    </Paper>
  );
}

function Origin({ side }: { side: Compared }) {
  const t = useText(jobWords);
  const origin = side.job.origin as { id?: string; kind?: string } | null;
  if (!origin?.id) return null;
  return (
    <Text size="sm">
      {origin.kind === 'clone' ? t('cloneOf') : t('rerunOf')}{' '}
      <Anchor component={Link} to={`/jobs/${origin.id}`} size="sm">
        {t('anotherJob')}
      </Anchor>
    </Text>
  );
}

function Choose({ a, b, compare }: { a: string; b: string; compare: (a: string, b: string) => void }) {
  const t = useText(words);
  const c = useText(common);
  const [first, setFirst] = useState(a);
  const [second, setSecond] = useState(b);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    compare(first.trim(), second.trim());
  };
  return (
    <Paper withBorder p="md" component="section" aria-label={t('choose')} maw={640}>
      <form onSubmit={submit}>
        <Stack>
          <Text>{t('chooseHint')}</Text>
          <TextInput label={t('first')} value={first} required onChange={(event) => setFirst(event.currentTarget.value)} />
          <TextInput label={t('second')} value={second} required onChange={(event) => setSecond(event.currentTarget.value)} />
          <Group justify="space-between">
            <Anchor component={Link} to="/jobs" size="sm">
              {t('toList')}
            </Anchor>
            <Group>
              {(a !== '' || b !== '') && (
                <Button variant="default" onClick={() => compare('', '')}>
                  {c('cancel')}
                </Button>
              )}
              <Button type="submit" disabled={first.trim() === '' || second.trim() === ''}>
                {t('compare')}
              </Button>
            </Group>
          </Group>
        </Stack>
      </form>
    </Paper>
  );
}

function waysOf(a: string, b: string): Ways {
  return {
    cli: `berth compare ${quote(a)} ${quote(b)}`,
    curl: [a, b].flatMap((job) => ['', '/spec', '/timeline', '/cost', '/metrics'].map((part) => curl('GET', `/jobs/${job}${part}`))).join('\n'),
    python: `import berth\n\nwith berth.Client() as client:\n    print(client.jobs.compare("${a}", "${b}"))`,
  };
}
