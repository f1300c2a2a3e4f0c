/** One job: what it is, how it stands, what can be done with it, and its parts as tabs with addresses of their own. */

import { Button, Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Suspense, useEffect } from 'react';
import { Link, useLocation, useNavigate, useParams } from 'react-router';

import { useSession } from '@/api/session';
import { lazyFile } from '@/app/lazyFile';
import { useText } from '@/text/language';
import { CopyAs } from '@/ui/CopyAs';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { Icon, type IconName } from '@/ui/Icon';
import { Page } from '@/ui/Page';
import { Said } from '@/ui/Said';

import { Actions } from './Actions';
import { HeadLine } from './HeadLine';
import { Overview } from './overview/Overview';
import { hasEnded, isArray, jobQuery, rightsTo, type Job } from './queries';
import { refetchOfProgress } from './tasks/Progress';
import { words } from './text';
import { waysTo, type TabName } from './ways';

const FILES = {
  logs: lazyFile(() => import('./logs/Logs')),
  tasks: lazyFile(() => import('./tasks/Tasks')),
  metrics: lazyFile(() => import('./metrics/Metrics')),
  events: lazyFile(() => import('./events/Events')),
  artifacts: lazyFile(() => import('./artifacts/Artifacts')),
  spec: lazyFile(() => import('./spec/Spec')),
  terminal: lazyFile(() => import('./terminal/Terminal')),
};

const TABS: readonly { name: TabName; icon: IconName }[] = [
  { name: 'overview', icon: 'info' },
  { name: 'logs', icon: 'jobs' },
  { name: 'tasks', icon: 'cluster' },
  { name: 'metrics', icon: 'usage' },
  { name: 'events', icon: 'events' },
  { name: 'artifacts', icon: 'download' },
  { name: 'spec', icon: 'edit' },
  { name: 'terminal', icon: 'terminal' },
];

export default function JobPage() {
  const t = useText(words);
  const { job: name = '', '*': rest = '' } = useParams();
  const navigate = useNavigate();
  const location = useLocation();
  const query = useQuery({ ...jobQuery(name), refetchInterval: ({ state: { data } }) => refetchOfProgress(data) });
  const found = query.data;
  const id = found?.id;
  useEffect(() => {
    // A name finds a job too; its events come under its id.
    if (id && id !== name) void navigate(`/jobs/${id}${rest ? `/${rest}` : ''}${location.search}`, { replace: true });
  }, [id, name, rest, location.search, navigate]);
  const tab = rest.split('/')[0] || 'overview';
  useEffect(() => {
    if (tab in FILES) void FILES[tab as keyof typeof FILES].load(); // Beside the job, not after it.
  }, [tab]);
  if (!found) {
    return (
      <Page title={t('job')} wide>
        {query.error ? <ProblemView error={query.error} retry={() => void query.refetch()} /> : <Loading lines={8} />}
      </Page>
    );
  }
  return <Found job={found} tab={tab} />;
}

function Found({ job, tab }: { job: Job; tab: string }) {
  const t = useText(words);
  const session = useSession();
  const navigate = useNavigate();
  const rights = rightsTo(job, session);
  const tabs = TABS.filter((each) => (each.name === 'terminal' ? session.has('terminal') && rights.edit && !isArray(job) && !hasEnded(job) : true));
  const shown = tabs.find((each) => each.name === tab)?.name ?? 'overview';
  return (
    <Page
      title={job.name}
      wide
      subtitle={<HeadLine job={job} rights={rights} />}
      actions={
        <>
          <Actions job={job} rights={rights} />
          <CopyAs ways={() => waysTo(job, shown)} />
        </>
      }
    >
      <Tabs value={shown} onChange={(value) => void navigate(value === 'overview' || !value ? `/jobs/${job.id}` : `/jobs/${job.id}/${value}`)} keepMounted={false}>
        <Tabs.List aria-label={t('sections')}>
          {tabs.map((each) => (
            <Tabs.Tab key={each.name} value={each.name} leftSection={<Icon name={each.icon} size={15} />}>
              {t(each.name)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {tabs.map((each) => (
          <Tabs.Panel key={each.name} value={each.name} pt="md">
            <Suspense fallback={<Loading lines={8} />}>
              <Part name={each.name} job={job} />
            </Suspense>
          </Tabs.Panel>
        ))}
      </Tabs>
    </Page>
  );
}

const NEEDS_ATTEMPT: ReadonlySet<TabName> = new Set(['logs', 'tasks', 'metrics', 'artifacts', 'terminal']);

function Part({ name, job }: { name: TabName; job: Job }) {
  const t = useText(words);
  if (NEEDS_ATTEMPT.has(name) && isArray(job)) {
    return (
      <Empty
        icon="jobs"
        title={t('isArray')}
        command={`berth ps --all --parent ${job.id}`}
        action={
          <Button component={Link} to={`/jobs?parent=${job.id}`} variant="default">
            {t('showChildren', { size: job.array?.size ?? 0 })}
          </Button>
        }
      >
        {t('isArrayHint')}
      </Empty>
    );
  }
  if (NEEDS_ATTEMPT.has(name) && job.attempt === 0) {
    return (
      <Empty icon="hourglass" title={t('notStarted')} command={waysTo(job, name).cli}>
        <Said text={job.reason?.text ?? t('notStartedHint')} />
      </Empty>
    );
  }
  if (name === 'overview') return <Overview job={job} />;
  const { Shown } = FILES[name];
  return <Shown job={job} />;
}
