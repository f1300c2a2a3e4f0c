/** What somebody wants to know first: how their jobs fare, what their tenants got, and what is free. */

import { Button, Grid, Group, Stack, UnstyledButton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { preferencesQuery } from '@/api/preferences';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Icon } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Mark, type JobState } from '@/ui/Status';

import { Card } from './Card';
import { FirstSteps, NoSteps } from './FirstSteps';
import { Active, Failed } from './MyJobs';
import { useCounts, useMine } from './reads';
import { Budgets, Free, Shares } from './Sides';
import { words } from './text';

const SHOWN = [
  { state: 'queued', icon: 'hourglass', color: 'yellow' },
  { state: 'running', icon: 'play', color: 'blue' },
  { state: 'failed', icon: 'cross', color: 'red' },
  { state: 'succeeded', icon: 'check', color: 'teal' },
] as const satisfies readonly { state: JobState; icon: string; color: string }[];

export default function Home() {
  const t = useText(words);
  const session = useSession();
  const { active, ended, isNewcomer, first } = useMine();
  const preferences = useQuery(preferencesQuery);
  const maySubmit = session.may('member');
  const hasOwn = !isNewcomer && (maySubmit || (active.data?.items.length ?? 0) + (ended.data?.items.length ?? 0) > 0);
  return (
    <Page
      title={t('hello', { name: session.who.user.name })}
      actions={
        maySubmit && (
          <Button component={Link} to="/submit" leftSection={<Icon name="submit" size={16} />}>
            {t('submit')}
          </Button>
        )
      }
    >
      {maySubmit ? first && preferences.data?.first_steps_done === false && <FirstSteps job={first[0]} /> : isNewcomer && <NoSteps />}
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 7, lg: 8 }}>
          <Stack gap="md">
            {hasOwn && <Active query={active} />}
            {hasOwn && <Failed query={ended} />}
            {!hasOwn && <Shares />}
            <Counts />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5, lg: 4 }}>
          <Stack gap="md">
            <Free />
            {hasOwn && <Shares />}
            <Budgets />
          </Stack>
        </Grid.Col>
      </Grid>
    </Page>
  );
}

function Counts() {
  const t = useText(words);
  const c = useText(common);
  const format = useFormat();
  const counts = useCounts();
  return (
    <Card title={t('inTenants')} to="/jobs" more={t('allJobs')}>
      <Group gap="sm" mih={26}>
        {SHOWN.map(({ state, icon, color }) => (
          <UnstyledButton key={state} component={Link} to={`/jobs?state=${state}`}>
            <Mark icon={icon} color={color} size="lg" label={`${c(state)} ${counts.data ? format.number(counts.data.states[state] ?? 0) : '…'}`} />
          </UnstyledButton>
        ))}
      </Group>
    </Card>
  );
}
