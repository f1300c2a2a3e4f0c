/** What became of a file of another system, until it is dismissed: what was lost first, because somebody has to do something about it. */

import { Accordion, CloseButton, Code, Group, List, Paper, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';

import { useText } from '@/text/language';
import { Loading, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { Said } from '@/ui/Said';

import { words } from './convertedText';
import { useConversion, type Conversion, type Foreign } from './foreign';

const KINDS = ['lost', 'changed', 'carried'] as const;
const LOOK = { lost: { icon: 'cross', color: 'red' }, changed: { icon: 'alert', color: 'yellow' }, carried: { icon: 'check', color: 'teal' } } as const;

export function Converted({ file, dismiss }: { file: Foreign; dismiss: () => void }) {
  const t = useText(words);
  const found = useConversion(file);
  const name = file.name || t('pasted');
  const close = <CloseButton aria-label={t('dismiss')} onClick={dismiss} />;
  if (found.error) {
    return (
      <Group align="flex-start" wrap="nowrap" gap="xs" component="section" aria-label={t('failed', { name })}>
        <div style={{ flex: 1, minWidth: 0 }}>
          <ProblemView error={found.error} title={t('failed', { name })} />
        </div>
        {close}
      </Group>
    );
  }
  if (!found.data) return <Loading lines={3} />;
  return <Notes made={found.data} name={name} close={close} />;
}

function Notes({ made, name, close }: { made: Conversion; name: string; close: ReactNode }) {
  const t = useText(words);
  const groups = KINDS.map((kind) => ({ kind, notes: made.notes.filter((note) => note.kind === kind) })).filter(({ notes }) => notes.length > 0);
  const isSame = groups.every(({ kind }) => kind === 'carried');
  return (
    <Paper withBorder p="sm" component="section" aria-label={t('title', { name })}>
      <Group align="flex-start" wrap="nowrap" gap="sm">
        <Icon name={isSame ? 'check' : 'alert'} size={18} />
        <Stack gap="xs" style={{ flex: 1, minWidth: 0 }}>
          <Text size="sm" fw={600} role="status" style={{ overflowWrap: 'anywhere' }}>
            {t('title', { name })}
          </Text>
          <Text size="sm">
            {t(made.from === 'openpai' ? 'openpai' : 'sbatch')} {isSame && t('same')}
          </Text>
          <Accordion multiple defaultValue={['lost', 'changed']} variant="contained" keepMounted={false}>
            {groups.map(({ kind, notes }) => (
              <Accordion.Item key={kind} value={kind}>
                <Accordion.Control icon={<Icon name={LOOK[kind].icon} size={16} />} c={LOOK[kind].color}>
                  <Text size="sm" fw={600} c="var(--mantine-color-text)">
                    {t(kind, { count: notes.length })}
                  </Text>
                </Accordion.Control>
                <Accordion.Panel>
                  <List size="sm" spacing={4}>
                    {notes.map((note, index) => (
                      <List.Item key={index} style={{ overflowWrap: 'anywhere' }}>
                        {note.place !== '' && <Code>{note.place}</Code>}{' '}
                        {note.line !== null && (
                          <Text span size="xs" c="dimmed">
                            {t('line', { line: note.line })}
                          </Text>
                        )}{' '}
                        <Said text={note.text} />{' '}
                        {note.hint !== '' && (
                          <Text span size="sm" c="dimmed">
                            <Said text={note.hint} />
                          </Text>
                        )}
                      </List.Item>
                    ))}
                  </List>
                </Accordion.Panel>
              </Accordion.Item>
            ))}
          </Accordion>
          <Text size="xs" c="dimmed">
            {t('cliHint')}
          </Text>
        </Stack>
        {close}
      </Group>
    </Paper>
  );
}
