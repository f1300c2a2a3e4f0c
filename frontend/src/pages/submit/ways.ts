/** The same submission from a shell, with curl and in Python. */

import { quote, type Ways } from '@/ui/CopyAs';

export function waysToSubmit(text: string, tenant: string, reason: string): Ways {
  const body = text.endsWith('\n') ? text : `${text}\n`;
  const end = body.includes('\nEND\n') || body.startsWith('END\n') ? 'END_OF_JOB' : 'END';
  const query = new URLSearchParams({ ...(tenant ? { tenant } : {}), ...(reason ? { priority_reason: reason } : {}) }).toString();
  return {
    cli: [`cat > job.yaml <<'${end}'`, `${body}${end}`, `berth submit -f job.yaml${tenant ? ` --tenant ${quote(tenant)}` : ''}${reason ? ` --priority-reason ${quote(reason)}` : ''}`].join('\n'),
    curl: [`curl -fsS -X POST ${quote(`${location.origin}/api/v1/jobs${query ? `?${query}` : ''}`)} \\`, `  -H "Authorization: Bearer $BERTH_TOKEN" -H 'Content-Type: application/yaml' \\`, `  --data-binary @- <<'${end}'`, `${body}${end}`].join('\n'),
    python: ['import berth', '', `JOB = ${pythonText(body)}`, '', `with berth.Client(${`server=${JSON.stringify(location.origin)}`}) as client:  # the token: BERTH_TOKEN, or \`berth login\``, `    job = client.jobs.submit(JOB${tenant ? `, tenant=${JSON.stringify(tenant)}` : ''})`, '    job.wait()', '    print(job.name, job.state)'].join('\n'),
  };
}

/** A text as Python writes it over several lines. */
function pythonText(text: string): string {
  return `"""\\\n${text.replaceAll('\\', '\\\\').replaceAll('"""', '\\"\\"\\"')}"""`;
}
