/** What each tab shows, as it is had outside the portal. */

import { curl, quote, type Ways } from '@/ui/CopyAs';

import type { Job } from './queries';

export type TabName = 'overview' | 'logs' | 'tasks' | 'metrics' | 'events' | 'artifacts' | 'spec' | 'terminal';

const CLI = {
  overview: (id: string) => `berth get ${id}\nberth explain ${id}`,
  logs: (id: string) => `berth logs ${id} --follow`,
  tasks: (id: string) => `berth get ${id} -o wide`,
  metrics: (id: string) => `berth metrics ${id} --watch`,
  events: (id: string) => `berth events ${id}`,
  artifacts: (id: string) => `berth cp ${id}: .`,
  spec: (id: string) => `berth get ${id} --spec`,
  terminal: (id: string) => `berth exec ${id}`,
} satisfies Record<TabName, (id: string) => string>;

const PATH = {
  overview: '',
  logs: '/logs?tail=1000',
  tasks: '/tasks',
  metrics: '/metrics',
  events: '/events',
  artifacts: '/artifacts',
  spec: '/spec',
  terminal: '/tasks',
} satisfies Record<TabName, string>;

const PYTHON = {
  overview: 'job = berth.jobs.get(JOB)\nprint(job.state)\nprint(berth.questions.explain(JOB))',
  logs: 'for line in berth.jobs.logs(JOB, follow=True):\n    print(line)',
  tasks: 'for task in berth.jobs.tasks(JOB):\n    print(task)',
  metrics: 'for series in berth.jobs.metrics(JOB):\n    print(series.label, series.latest)',
  events: 'for event in berth.jobs.events(JOB):\n    print(event)',
  artifacts: 'berth.jobs.download(JOB, dest=".")',
  spec: 'print(berth.jobs.spec(JOB))',
  terminal: 'for task in berth.jobs.tasks(JOB):\n    print(task)',
} satisfies Record<TabName, string>;

export function waysTo(job: Job, tab: TabName): Ways {
  return {
    cli: CLI[tab](quote(job.id)),
    curl: curl('GET', `/jobs/${job.id}${PATH[tab]}`),
    python: `from berth import Client\n\nJOB = "${job.id}"\nberth = Client()\n${PYTHON[tab]}`,
  };
}
