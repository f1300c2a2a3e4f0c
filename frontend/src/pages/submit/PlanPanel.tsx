/** What would become of the job, in words and numbers, as it is written now. */

import { Alert, Anchor, Button, Group, List, Loader, Paper, Stack, Table, Text, VisuallyHidden } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';

import { asProblem, type FieldProblem } from '@/api/problem';
import { useFormat, type Format } from '@/text/format';
import { useText, type Translate } from '@/text/language';
import { ProblemView } from '@/ui/Feedback';
import { Icon, type IconName } from '@/ui/Icon';
import { Said } from '@/ui/Said';
import { useNow } from '@/ui/Times';

import type { Option, Plan } from './asking';
import { LayoutView } from './Layout';
import { darkTitle } from './look';
import { words } from './text';

type T = Translate<keyof typeof words.en>;

/** Less than this is not told exactly. */
const LEAST_MICROS = 10_000;

export interface Placed extends FieldProblem {
  line: number;
}

export function PlanPanel({
  query,
  shown,
  isChecking,
  why,
  problems,
  goTo,
  isUnreadable,
  choose,
}: {
  query: UseQueryResult<Plan>;
  /** The latest plan, which may still be that of a moment ago. */
  shown: Plan | undefined;
  isChecking: boolean;
  why: UseQueryResult<string>;
  problems: readonly Placed[];
  goTo: (problem: Placed) => void;
  isUnreadable: boolean;
  choose: (option: Option) => void;
}) {
  const t = useText(words);
  const isRefused = problems.length > 0;
  const fault = query.error && asProblem(query.error).fields.length === 0 ? query.error : null;
  return (
    <Paper withBorder p="md" component="section" aria-label={t('plan')}>
      <Stack gap="sm">
        <Group justify="space-between" wrap="nowrap">
          <Text fw={600} component="h2" size="md">
            {t('plan')}
          </Text>
          <Group gap={6} wrap="nowrap" mih={22} role="status" aria-busy={isChecking}>
            {isChecking && (
              <>
                <Loader size={14} />
                <Text size="xs" c="dimmed">
                  {t('planChecking')}
                </Text>
              </>
            )}
          </Group>
        </Group>
        {isUnreadable || isRefused ? (
          <Refused title={isUnreadable ? t('planUnreadable') : t('planRefused')} problems={problems} goTo={goTo} t={t} />
        ) : fault ? (
          <ProblemView error={fault} retry={() => void query.refetch()} />
        ) : shown ? (
          <Told plan={shown} why={why} choose={choose} t={t} />
        ) : (
          <Text size="sm" c="dimmed" mih={120}>
            {t('planChecking')}
          </Text>
        )}
      </Stack>
    </Paper>
  );
}

function Refused({ title, problems, goTo, t }: { title: string; problems: readonly Placed[]; goTo: (problem: Placed) => void; t: T }) {
  return (
    <Alert color="red" icon={<Icon name="cross" />} title={title} p="sm">
      <Text size="sm" mb={4}>
        {t('problems', { count: problems.length })}
      </Text>
      <List size="sm" spacing={6} listStyleType="none">
        {problems.slice(0, 30).map((problem, index) => (
          <List.Item key={`${problem.path}-${index}`}>
            <Anchor component="button" type="button" size="sm" ta="left" onClick={() => goTo(problem)}>
              {t('problemLine', { line: problem.line })}
              {problem.path && ` · ${problem.path.slice(1).replaceAll('/', '.')}`}
            </Anchor>
            <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
              <Said text={problem.message} />
            </Text>
            {problem.hint && (
              <Text size="sm" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                <Said text={problem.hint} />
              </Text>
            )}
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}

function Told({ plan, why, choose, t }: { plan: Plan; why: UseQueryResult<string>; choose: (option: Option) => void; t: T }) {
  const format = useFormat();
  const options = plan.forecast?.options ?? [];
  const asked = options.find((option) => option.size === 'asked');
  const isHeld = plan.spec.hold === true;
  const verdict: { icon: IconName; color: string; title: string } = isHeld
    ? { icon: 'pause', color: 'gray', title: t('planHeld') }
    : plan.depends_on.length > 0 || plan.fetches
      ? { icon: 'hourglass', color: 'yellow', title: t('planAfter') }
      : asked?.starts_now
        ? { icon: 'check', color: 'teal', title: t('planNow') }
        : asked?.p50_at
          ? { icon: 'hourglass', color: 'yellow', title: t('planLater') }
          : { icon: 'clock', color: 'orange', title: t('planUnknown') };
  const past = plan.forecast?.past;
  return (
    <Stack gap="sm">
      <Alert color={verdict.color} icon={<Icon name={verdict.icon} />} title={verdict.title} p="sm" role="status" styles={darkTitle}>
        <Stack gap={4}>
          {asked?.starts_now && asked.pools.length > 0 && <Text size="sm">{t('planWhere', { pools: asked.pools.join(', ') })}</Text>}
          {asked && !asked.starts_now && asked.p50_at && <Likely option={asked} t={t} />}
          {asked && !asked.starts_now && (why.data || asked.reason) && (
            <Text size="sm">
              <Text span fw={600}>
                {t('planWhy')}:{' '}
              </Text>
              <Said text={why.data || asked.reason} />
            </Text>
          )}
        </Stack>
      </Alert>
      <Text size="sm">
        <Text span fw={600}>
          {t('planAsk')}:{' '}
        </Text>
        {plan.jobs > 1 && `${t('planJobs', { count: format.number(plan.jobs) })}; `}
        {plan.roles.map((role) => `${role.name}: ${t('planTasks', { count: role.replicas })} × ${amounts(role.resources, format, t)}`).join('; ')}
        {'; '}
        {t('planTotal', { total: amounts(plan.total, format, t) })}.
      </Text>
      {plan.fetches && (
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          {t('planFetch', plan.fetches)}
        </Text>
      )}
      {plan.layout && <LayoutView layout={plan.layout} />}
      {options.length > 0 && <Options plan={plan} options={options} choose={choose} t={t} />}
      {plan.forecast && plan.forecast.runs_seconds !== null && (
        <Text size="xs" c="dimmed">
          {plan.forecast.runs_by === 'asked'
            ? t('planRunsAsked', { time: format.duration(plan.forecast.runs_seconds) })
            : t('planRunsPast', { time: format.duration(plan.forecast.runs_seconds), by: by(plan.forecast.runs_by, t) })}
          {past && past.predictions > 0 && past.by_p90 !== null && ` ${t('planPast', { count: past.predictions, share: format.percent(past.by_p90), error: format.duration(past.median_error_seconds) })}`}
        </Text>
      )}
      {plan.max_runtime_seconds === null && typeof plan.forecast?.runs_seconds !== 'number' && (
        <Text size="xs" c="dimmed">
          {plan.planned_runtime_seconds === null ? t('planRunsForEver') : t('planRunsAssumed', { time: format.duration(plan.planned_runtime_seconds) })}
        </Text>
      )}
      {plan.warnings.length > 0 && (
        <Alert color="yellow" icon={<Icon name="alert" />} title={t('warnings')} p="sm" styles={darkTitle}>
          <List size="sm">
            {plan.warnings.map((warning) => (
              <List.Item key={warning}>
                  <Said text={warning} />
                </List.Item>
            ))}
          </List>
        </Alert>
      )}
      <Text size="xs" c="dimmed">
        {t('planNote')}
      </Text>
    </Stack>
  );
}

function Likely({ option, t }: { option: Option; t: T }) {
  const format = useFormat();
  const now = useNow();
  const p50 = moment(option.p50_at, now, format, t);
  return <Text size="sm">{option.p90_at ? t('planLikely', { p50, p90: moment(option.p90_at, now, format, t) }) : t('planLikelyOnly', { p50 })}</Text>;
}

/** `14:05 (in 3 min)`. */
function moment(at: string | null, now: number, format: Format, t: T): string {
  if (!at) return '–';
  const seconds = (Date.parse(at) - now) / 1000;
  const clock = format.time(at);
  return seconds > 0 ? `${clock} (${t('planIn', { time: format.duration(seconds) })})` : clock;
}

function Options({ plan, options, choose, t }: { plan: Plan; options: readonly Option[]; choose: (option: Option) => void; t: T }) {
  const format = useFormat();
  const now = useNow();
  const currency = plan.forecast?.currency ?? '';
  const asked = options.find((option) => option.size === 'asked');
  const isBilled = options.some((option) => option.cost !== null); // A tenant may be without billing.
  return (
    <Table.ScrollContainer minWidth={300}>
      <Table verticalSpacing={4} horizontalSpacing={6} fz="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t('size')}</Table.Th>
            <Table.Th>{t('start')}</Table.Th>
            {isBilled && <Table.Th>{t('cost')}</Table.Th>}
            <Table.Th>
              <VisuallyHidden>{t('useThis')}</VisuallyHidden>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {options.map((option) => (
            <Table.Tr key={option.size}>
              <Table.Td>
                <Text size="sm" fw={option === asked ? 600 : 400}>
                  {size(option.size, t)}
                </Text>
                <Text size="xs" c="dimmed">
                  {amounts(option.total, format, t)}
                </Text>
              </Table.Td>
              <Table.Td>
                {option.starts_now ? (
                  t('atOnce')
                ) : option.p50_at ? (
                  <span title={`${format.timeWithZone(option.p50_at)} – ${format.timeWithZone(option.p90_at)}`}>
                    {t('planIn', { time: soon(option.p50_at, now, format) })}
                    {option.p90_at && option.p90_at !== option.p50_at && ` – ${soon(option.p90_at, now, format)}`}
                  </span>
                ) : (
                  <span title={option.reason}>–</span>
                )}
              </Table.Td>
              {isBilled && <Table.Td>{option.cost ? <Cost cost={option.cost} currency={currency} t={t} /> : '–'}</Table.Td>}
              <Table.Td>
                {option !== asked && (
                  <Button size="compact-xs" variant="default" onClick={() => choose(option)} aria-label={t('useThisLabel', { size: size(option.size, t) })}>
                    {t('useThis')}
                  </Button>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Cost({ cost, currency, t }: { cost: NonNullable<Option['cost']>; currency: string; t: T }) {
  const format = useFormat();
  const hourly = money(cost.micros_per_hour, cost.micros_per_hour_max, currency, format, t);
  return (
    <>
      <Text size="sm">{cost.micros === null ? '–' : money(cost.micros, cost.micros_max, currency, format, t)}</Text>
      {cost.micros_per_hour > 0 && (
        <Text size="xs" c="dimmed">
          {t('hourly', { money: hourly })}
        </Text>
      )}
    </>
  );
}

function soon(at: string | null, now: number, format: Format): string {
  return at ? format.duration(Math.max(0, Math.round((Date.parse(at) - now) / 1000))) : '–';
}

function size(name: string, t: T): string {
  return name === 'asked' ? t('size_asked') : name === 'half' ? t('size_half') : name === 'quarter' ? t('size_quarter') : name;
}

function by(name: string, t: T): string {
  return name === 'name' ? t('by_name') : name === 'user' ? t('by_user') : name === 'queue' ? t('by_queue') : t('by_all');
}

function money(least: number, most: number | null, currency: string, format: Format, t: T): string {
  const say = (micros: number) => (micros > 0 && micros < LEAST_MICROS ? `< ${format.number(LEAST_MICROS / 1e6, 2)}` : format.number(micros / 1e6, micros < 1e6 ? 3 : 2));
  if (least === 0 && (most === null || most === 0)) return t('free');
  return `${say(least)}${most !== null && say(most) !== say(least) ? ` – ${say(most)}` : ''} ${currency}`;
}

function amounts(resources: { cpu_millis: number; memory_bytes: number; gpu_millis: number }, format: Format, t: T): string {
  const cores = t('planCores', { count: format.milli(resources.cpu_millis), one: resources.cpu_millis / 1000 });
  const gpus = resources.gpu_millis > 0 ? [t('planGpus', { count: format.milli(resources.gpu_millis), one: resources.gpu_millis / 1000 })] : [];
  return [...gpus, cores, format.bytes(resources.memory_bytes)].join(', ');
}
