/** What one person may hold at a time: the lines are edited as a table and saved as a whole. */

import { Alert, Button, Group, Stack, Table, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, take, type Schemas } from '@/api/client';
import { asProblem, type Problem } from '@/api/problem';
import { queries } from '@/api/query';
import { amountText, parseAmount, parseWhole } from '@/text/amounts';
import { common } from '@/text/common';
import { useText } from '@/text/language';
import { Answer, Empty, ProblemView } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';
import { SmallTable } from '@/ui/SmallTable';

import type { Part } from './Tenant';
import { words } from './text';

interface Line {
  user: string;
  gpus: string;
  jobs: string;
  containers: string;
}

/** What is wrong there is told in the table. */
const AT_CELL = /^\/\d+\/(user|gpu_millis|jobs|containers)$/;

const text = (value: number | null) => (value === null ? '' : String(value));

function linesOf(caps: readonly Schemas['CapOut'][]): Line[] {
  return caps.map((cap) => ({ user: cap.user?.name ?? '', gpus: amountText('gpu_millis', cap.gpu_millis), jobs: text(cap.jobs), containers: text(cap.containers) }));
}

export default function Caps({ tenant, runs }: Part) {
  const query = useQuery({ queryKey: ['tenant', tenant.slug, 'caps'], queryFn: () => take(api.GET('/api/v1/tenants/{tenant}/caps', { params: { path: { tenant: tenant.slug } } })) });
  return <Answer query={query}>{(caps) => <Editor key={JSON.stringify(caps.items)} tenant={tenant.slug} stored={linesOf(caps.items)} runs={runs} />}</Answer>;
}

function Editor({ tenant, stored, runs }: { tenant: string; stored: Line[]; runs: boolean }) {
  const t = useText(words);
  const c = useText(common);
  const [lines, setLines] = useState(stored);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const isChanged = JSON.stringify(lines) !== JSON.stringify(stored);
  const parsed = lines.map((line) => ({ user: line.user.trim() || null, gpu_millis: parseAmount('gpu_millis', line.gpus), jobs: parseWhole(line.jobs), containers: parseWhole(line.containers) }));
  const hasWrong = parsed.some((line) => [line.gpu_millis, line.jobs, line.containers].some(Number.isNaN));
  const change = (index: number, part: Partial<Line>) => setLines(lines.map((line, at) => (at === index ? { ...line, ...part } : line)));
  const save = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await api.PUT('/api/v1/tenants/{tenant}/caps', { params: { path: { tenant } }, body: parsed });
      await queries.invalidateQueries({ queryKey: ['tenant', tenant, 'caps'] });
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const cell = (index: number, name: keyof Line, path: string, label: string, isNumber = true) => {
    const value = lines[index]?.[name] ?? '';
    const wrong = isNumber && Number.isNaN(name === 'gpus' ? parseAmount('gpu_millis', value) : parseWhole(value));
    return (
      <TextInput
        size="xs"
        inputMode={isNumber ? 'decimal' : undefined}
        aria-label={`${label}, ${t('line', { number: index + 1 })}`}
        placeholder={isNumber ? t('noLimit') : t('everybody')}
        value={value}
        disabled={!runs}
        onChange={(event) => change(index, { [name]: event.currentTarget.value })}
        error={wrong ? t('notNumber') : problem?.at(`/${index}/${path}`)}
      />
    );
  };
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed">{t('capsHint')}</Text>
        {runs && (
          <Button variant="default" leftSection={<Icon name="submit" size={16} />} onClick={() => setLines([...lines, { user: '', gpus: '', jobs: '', containers: '' }])}>
            {t('addCap')}
          </Button>
        )}
      </Group>
      {problem && (problem.fields.length === 0 || !problem.fields.every((field) => AT_CELL.test(field.path))) && <ProblemView error={problem} />}
      {lines.length === 0 ? (
        <Empty icon="filter" title={t('noCaps')} command={runs ? `berth queues cap --user NAME --gpu 4 --tenant ${tenant}` : undefined}>
          {t('noCapsHint')}
        </Empty>
      ) : (
        <SmallTable label={t('caps')} head={[t('person'), t('gpus'), t('jobsMax'), t('containers'), c('actions')]}>
          {lines.map((_, index) => (
            <Table.Tr key={index}>
              <Table.Td>{cell(index, 'user', 'user', t('person'), false)}</Table.Td>
              <Table.Td>{cell(index, 'gpus', 'gpu_millis', t('gpus'))}</Table.Td>
              <Table.Td>{cell(index, 'jobs', 'jobs', t('jobsMax'))}</Table.Td>
              <Table.Td>{cell(index, 'containers', 'containers', t('containers'))}</Table.Td>
              <Table.Td>
                {runs && (
                  <Button size="compact-sm" variant="subtle" color="red" aria-label={t('removeNamed', { name: t('line', { number: index + 1 }) })} onClick={() => setLines(lines.filter((__, at) => at !== index))}>
                    {t('remove')}
                  </Button>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </SmallTable>
      )}
      {lines.length > 0 && (
        <Text size="sm" c="dimmed">
          {t('personHint')}
        </Text>
      )}
      {isChanged && (
        <Alert color="yellow" icon={<Icon name="edit" />} py="xs" role="status">
          <Group justify="space-between">
            <Text size="sm">{t('unsaved')}</Text>
            <Group gap="xs">
              <Button size="xs" variant="default" onClick={() => setLines(stored)}>
                {t('discard')}
              </Button>
              <Button size="xs" loading={isBusy} disabled={hasWrong} onClick={() => void save()}>
                {c('save')}
              </Button>
            </Group>
          </Group>
        </Alert>
      )}
    </Stack>
  );
}
