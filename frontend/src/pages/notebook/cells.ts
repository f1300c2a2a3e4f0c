/**
 * The cells of a first notebook, filled in for a server, a tenant and a queue. Each runs as it stands, one after the other.
 *
 * The words in them are comments of code and stay English, as the code does.
 */

export const CELLS = ['install', 'signIn', 'submit', 'follow', 'metrics', 'results', 'many', 'look'] as const;
export type CellName = (typeof CELLS)[number];

export interface Place {
  server: string;
  /** As the SDK takes it; empty for somebody's only tenant. */
  tenant: string;
  queue: string;
  /** Written into the cell only where its owner asks for that; empty otherwise. */
  token: string;
  /** Whether a GPU is asked for. */
  gpu: boolean;
}

export function cell(name: CellName, place: Place): string {
  return MAKE[name](place);
}

const text = (value: string) => JSON.stringify(value);

const MAKE: Record<CellName, (place: Place) => string> = {
  install: () => `# The folder client/ of a Berth checkout, or the wheel of it that your operator hands out.
%pip install --quiet ./client matplotlib`,

  signIn: ({ server, tenant, token }) => {
    const given = token ? text(token) : 'getpass.getpass("Berth token: ")';
    return `${token ? '' : 'import getpass\n\n'}import berth

client = berth.Client(
    ${text(server)},
    ${given},${tenant ? `\n    tenant=${text(tenant)},` : ''}
)
print(client.whoami()["user"]["name"], "on", client.settings.server)`;
  },

  submit: ({ queue, gpu }) => `PROGRAM = """
import json, random, time

inside = total = 0
end = time.monotonic() + 12
while time.monotonic() < end:
    for _ in range(400_000):
        inside += random.random() ** 2 + random.random() ** 2 <= 1
    total += 400_000
    print(f"{total:>9,} points   pi = {4 * inside / total:.5f}", flush=True)
json.dump({"points": total, "pi": 4 * inside / total}, open("pi.json", "w"))
"""

job = client.jobs.submit(
    {
        "name": "from-a-notebook",${queue ? `\n        "queue": ${text(queue)},` : ''}
        "command": ["python3", "-c", PROGRAM],
        "resources": {"cpu": 0.5, "memory": "256Mi"${gpu ? ', "gpu": 1' : ''}},
        "max_runtime": "5m",
        "outputs": ["pi.json"],
    }
)
print(job.name, job.id, job.state)`,

  follow: () => `for line in job.logs(follow=True):  # each line once, until the job has ended
    print(line.text)

job.wait(timeout=600)
print(job.name, job.state)`,

  metrics: () => `from matplotlib import pyplot

series = [one for one in job.metrics() if one.metric in ("cpu_millis", "memory_bytes") and one.latest is not None]
figure, axes = pyplot.subplots(1, 2, figsize=(10, 3), layout="constrained")
for one in series:
    one.plot(axes[0] if one.metric == "cpu_millis" else axes[1])
axes[0].set_title("thousandths of a core")
axes[1].set_title("bytes of memory");`,

  results: () => `import json

[path] = job.download("pi.json", ".")
print(json.loads(path.read_text()))`,

  many: ({ queue }) => `made = client.jobs.submit_batch(
    {
        "name": "seeds",${queue ? `\n        "queue": ${text(queue)},` : ''}
        "command": "echo seed $SEED",
        "resources": {"cpu": 0.1, "memory": "64Mi"},
        "max_runtime": "5m",
    },
    [{"env": {"SEED": str(seed)}} for seed in range(3)],
)
for job_id in made["ids"]:
    print(client.jobs.wait(job_id, timeout=600).state)`,

  look: () => `for each in client.jobs.list(limit=10):
    print(f"{each.name:<24} {each.state}")

again = job.rerun(changes={"name": "once-more"})  # the same job with a change
again.stop()
print(again.name, again.refresh().state)`,
};

/** The cells as a notebook file. It never holds a token. */
export function notebook(place: Place, title: string, say: (name: CellName) => string): string {
  const safe = { ...place, token: '' };
  const lines = (source: string) => source.split('\n').map((line, index, all) => (index === all.length - 1 ? line : `${line}\n`));
  const cells = [
    { cell_type: 'markdown', id: 'title', metadata: {}, source: lines(`# ${title}`) },
    ...CELLS.flatMap((name) => [
      { cell_type: 'markdown', id: `about-${name}`, metadata: {}, source: lines(`## ${say(name)}`) },
      { cell_type: 'code', id: `cell-${name}`, metadata: {}, execution_count: null, outputs: [], source: lines(cell(name, safe)) },
    ]),
  ];
  return JSON.stringify({ cells, metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' }, language_info: { name: 'python' } }, nbformat: 4, nbformat_minor: 5 }, null, 1);
}
