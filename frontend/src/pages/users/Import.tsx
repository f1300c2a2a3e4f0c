/** Users from a CSV file: checked first, then written as a whole; what is wrong is told by line. */

import { Alert, Button, FileButton, Group, List, Progress, ScrollArea, Stack, Table, Text, Textarea } from '@mantine/core';
import { useState } from 'react';

import { send, type Schemas } from '@/api/client';
import { asProblem, type Problem } from '@/api/problem';
import { queries } from '@/api/query';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { ProblemView } from '@/ui/Feedback';
import { saveCsv } from '@/ui/files';
import { Icon } from '@/ui/Icon';
import { Said } from '@/ui/Said';
import { Mark } from '@/ui/Status';

import { inviteAll, linkRows, newPeople, type Invited, type Person } from './invites';
import { words } from './text';

type Report = Schemas['ImportOut'];
const SHOWN = 500;

export function Import({ close }: { close: () => void }) {
  const t = useText(words);
  const c = useText(common);
  const [text, setText] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [report, setReport] = useState<Report | null>(null);
  const run = async (isDry: boolean) => {
    setBusy(true);
    setProblem(null);
    setReport(null);
    try {
      const answer = await send('POST', `/api/v1/users:import${isDry ? '?dry_run=true' : ''}`, { body: text, headers: { 'Content-Type': 'text/csv' } });
      setReport((await answer.json()) as Report);
      if (!isDry) await Promise.all([queries.invalidateQueries({ queryKey: ['users'] }), queries.invalidateQueries({ queryKey: ['tenant'] })]);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const type = (value: string) => {
    setText(value);
    setReport(null);
    setProblem(null);
  };
  return (
    <Stack>
      <Text size="sm" c="dimmed">
        {t('importHint')}
      </Text>
      <Textarea label={t('lines')} placeholder={'name,email,tenant,role\nerin,erin@example.org,vision,member'} value={text} onChange={(event) => type(event.currentTarget.value)} autosize minRows={5} maxRows={12} spellCheck={false} />
      <Group justify="space-between">
        <FileButton onChange={(file) => file && void file.text().then(type)} accept="text/csv,.csv,text/plain">
          {(props) => (
            <Button {...props} variant="default" leftSection={<Icon name="data" size={16} />}>
              {t('chooseFile')}
            </Button>
          )}
        </FileButton>
        <Group>
          <Button variant="default" onClick={close}>
            {c('close')}
          </Button>
          <Button variant="default" loading={isBusy} disabled={!text.trim()} onClick={() => void run(true)}>
            {t('check')}
          </Button>
          <Button loading={isBusy} disabled={!report?.dry_run} onClick={() => void run(false)}>
            {t('doImport')}
          </Button>
        </Group>
      </Group>
      <div aria-live="polite">
        {problem && problem.fields.length > 0 && (
          <Alert color="red" icon={<Icon name="alert" />} title={t('wrongLines', { count: problem.fields.length })} role="alert">
            <ScrollArea.Autosize mah={260}>
              <List size="sm">
                {problem.fields.slice(0, SHOWN).map((field, index) => (
                  <List.Item key={index}>
                    <b>{field.path.replace(/^\//, '').replaceAll('/', ' · ')}</b> <Said text={[field.message, field.hint]} />
                  </List.Item>
                ))}
              </List>
            </ScrollArea.Autosize>
          </Alert>
        )}
        {problem && problem.fields.length === 0 && <ProblemView error={problem} />}
        {report && (
          <Stack gap="xs">
            <Alert color={report.dry_run ? 'blue' : 'teal'} icon={<Icon name={report.dry_run ? 'info' : 'check'} />}>
              {t(report.dry_run ? 'checked' : 'imported', { created: report.created, updated: report.updated, unchanged: report.unchanged })}
            </Alert>
            {!report.dry_run && <Invite people={newPeople(text, new Set(report.lines.filter((line) => line.action === 'created').map((line) => line.name)))} created={report.created} />}
            <ScrollArea.Autosize mah={260} tabIndex={0}>
              <Table aria-label={t('lines')} stickyHeader>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t('line')}</Table.Th>
                    <Table.Th>{c('name')}</Table.Th>
                    <Table.Th>{t('action')}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {report.lines.slice(0, SHOWN).map((line) => (
                    <Table.Tr key={line.line}>
                      <Table.Td>{line.line}</Table.Td>
                      <Table.Td>{line.name}</Table.Td>
                      <Table.Td>
                        <Mark icon={line.action === 'created' ? 'submit' : line.action === 'updated' ? 'edit' : 'check'} color={line.action === 'created' ? 'teal' : line.action === 'updated' ? 'blue' : 'gray'} label={t(line.action)} size="sm" />
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </ScrollArea.Autosize>
          </Stack>
        )}
      </div>
    </Stack>
  );
}

/** The next step after an import: new people can sign in only after they accepted an invitation. */
function Invite({ people, created }: { people: readonly Person[]; created: number }) {
  const t = useText(words);
  const [done, setDone] = useState<number | null>(null);
  const [invited, setInvited] = useState<readonly Invited[] | null>(null);
  const run = async () => {
    setDone(0);
    const all = await inviteAll(people, setDone);
    setInvited(all);
    setDone(null);
  };
  if (created === 0) return null;
  if (people.length === 0) return <Text size="sm">{t('inviteNobody')}</Text>;
  const made = invited?.filter((each) => each.link !== null) ?? [];
  const refused = invited?.filter((each) => each.problem !== null) ?? [];
  return (
    <Stack gap="xs">
      <Text size="sm">{t('inviteHint')}</Text>
      {done !== null && <Progress value={(done / people.length) * 100} aria-label={t('inviting', { done, count: people.length })} />}
      {invited === null ? (
        <Group>
          <Button loading={done !== null} onClick={() => void run()} leftSection={<Icon name="users" size={16} />}>
            {t('inviteAll', { count: people.length })}
          </Button>
        </Group>
      ) : (
        <Alert color={refused.length > 0 ? 'yellow' : 'teal'} icon={<Icon name={refused.length > 0 ? 'alert' : 'check'} />} title={t('invited', { count: made.length })}>
          <Stack gap="xs" align="flex-start">
            <Text size="sm">{t('linksHint')}</Text>
            <Button size="sm" leftSection={<Icon name="download" size={16} />} onClick={() => saveCsv('berth-invitations.csv', linkRows(invited))}>
              {t('links')}
            </Button>
            {refused.length > 0 && (
              <List size="sm">
                {refused.slice(0, SHOWN).map(({ person, problem }) => (
                  <List.Item key={person.name}>
                    <b>{person.name}</b> <Said text={[problem?.detail || problem?.title, problem?.hint]} />
                  </List.Item>
                ))}
              </List>
            )}
          </Stack>
        </Alert>
      )}
    </Stack>
  );
}
