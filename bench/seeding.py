"""A million jobs of two hundred tenants, put into PostgreSQL past the product in about a minute: history to look through.

People, tenants and queues are made through the API. Jobs and their attempts are made by the database itself, from
`generate_series`, with foreign keys and triggers off and secondary indexes built afterwards; the kept counts are added at the
end. What is written is what the product would have written, but for events and transitions, which no list reads.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg

from bench.frame import Bench
from bench.platforms import RunningPlatform

DAYS = 90  # Jobs were submitted evenly over the last three months.
WORDS = 2_000  # Different words in names: a word is in one of 2,000 jobs.
TAGS = 500
WAITING_PER_MILLE = 4  # Held, so that the scheduler has nothing to do with them.


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who looks at lists, by token."""

    name: str
    token: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Seeded:
    readers: tuple[Reader, ...]
    queue: str  # A name that every tenant has.
    user: str  # Whose jobs are in the member's tenant.
    seconds: float


def seed(berth: RunningPlatform, bench: Bench, *, jobs: int, tenants: int) -> Seeded:
    """Fill a new platform. Ten tenants stand at the top; the others are below them."""
    began = time.monotonic()
    slugs, member, manager, user = _people(berth, bench, tenants)
    assert berth.stores is not None
    with psycopg.connect(berth.stores.database_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET maintenance_work_mem = '512MB'")
        connection.execute("SET synchronous_commit = off")
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ('jobs_job', 'jobs_attempt') "
            "AND indexname NOT IN (SELECT conname FROM pg_constraint)"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f'DROP INDEX "{name}"')
        bench.say(f"{len(slugs)} tenants; now {jobs} jobs")
        for statement in _SETUP:
            connection.execute(statement)
        for start in range(0, jobs, 100_000):
            bench.progress(f"{start} jobs")
            connection.execute(
                _JOBS,
                {
                    "first": start, "last": min(jobs, start + 100_000) - 1, "jobs": jobs, "days": DAYS, "words": WORDS,
                    "tags": TAGS, "waiting": WAITING_PER_MILLE,
                },
            )  # fmt: skip
        connection.execute(_ATTEMPTS)
        connection.execute(_COUNTS)
        for number, (_, definition) in enumerate(indexes):
            bench.progress(f"index {number + 1} of {len(indexes)}")
            connection.execute(definition)
        connection.execute("DROP TABLE bench_tenants")
        for table in ("jobs_job", "jobs_attempt", "jobs_jobcount"):
            connection.execute(f"VACUUM ANALYZE {table}")
    operator = Reader("operator", berth.token, "")
    return Seeded((member, manager, operator), "night", user, time.monotonic() - began)


def _people(berth: RunningPlatform, bench: Bench, tenants: int) -> tuple[list[str], Reader, Reader, str]:
    """Tenants with a second queue and an account each; a member of one below and a manager of one at the top."""
    tops: list[str] = []
    slugs: list[str] = []
    readers: dict[str, Reader] = {}
    user = ""
    for number in range(tenants):
        bench.progress(f"tenant {number + 1} of {tenants}")
        body = {"name": f"bench-{number}", **({"parent": tops[number % 10]} if number >= 10 else {})}
        slug = berth.api("POST", "/tenants", body)["slug"]
        slugs.append(slug)
        if number < 10:
            tops.append(slug)
        berth.api("POST", "/queues", {"tenant": slug, "name": "night"})
        role = "manager" if number == 0 else "member"
        account = berth.api("POST", f"/tenants/{slug}/service-accounts", {"name": f"bench-{number}", "role": role})
        if number in (0, 10):
            token = berth.api("POST", "/tokens", {"name": "bench", "service_account": account["id"]})
            readers[role] = Reader(role, token["token"], slug)
            user = account["name"] if role == "member" else user
    return slugs, readers["member"], readers["manager"], user


_SETUP = (
    """
CREATE TABLE bench_tenants AS
SELECT t.id, row_number() OVER (ORDER BY t.number) - 1 AS place,
       (SELECT id FROM tenants_queue q WHERE q.tenant_id = t.id AND q.is_top) AS top,
       (SELECT id FROM tenants_queue q WHERE q.tenant_id = t.id AND q.name = 'night') AS night,
       (SELECT id FROM tenants_user u WHERE u.tenant_id = t.id LIMIT 1) AS account,
       (SELECT id FROM tenants_user u WHERE u.is_operator LIMIT 1) AS person,
       gen_random_uuid() AS spec
FROM tenants_tenant t WHERE t.name LIKE 'bench-%'
""",
    """
INSERT INTO jobs_storedspec (id, tenant_id, digest, document, created_at)
SELECT spec, id, md5(id::text) || md5(id::text), '{"name":"bench","priority":500,"roles":{"worker":{"command":"true"}}}', now()
FROM bench_tenants
""",
    # A waiting job whose owner has no role in its tenant would wait for that, and be written once more.
    """
INSERT INTO tenants_membership (id, tenant_id, user_id, role, version, created_at)
SELECT gen_random_uuid(), id, person, 'member', 1, now() FROM bench_tenants
""",
)

_JOBS = """
INSERT INTO jobs_job (
    id, tenant_id, queue_id, user_id, spec_id, image_id, image_kind, image_name, image_digest, code_digest, name, kind, framework,
    labels, tags, pool_name, state, desired, hold, priority, reason_code, reason_detail, condition, cpu_millis, memory_bytes,
    gpu_millis, origin_kind, open_dependencies, dependency_failed, attempt_count, paid, submitted_at, queued_at, started_at,
    ended_at, attempt_id, version
)
SELECT
    (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
        || substr(md5(n::text), 4, 15))::uuid,
    t.id, CASE WHEN r < 0.3 THEN t.night ELSE t.top END, CASE WHEN n %% 4 = 0 THEN t.person ELSE t.account END, t.spec,
    NULL, 'host', 'host', 'host', '',
    'train-w' || (hash %% %(words)s) || '-' || n, 'batch', 'none', '{}',
    jsonb_build_array('team-' || (hash %% %(tags)s), 'run-' || (hash %% 7)), '',
    state, 'run', state = 'queued', (ARRAY[100, 500, 500, 500, 500, 500, 500, 900])[1 + abs(hashint8(n * 104729)) %% 8],
    CASE WHEN state = 'queued' THEN 'held' ELSE '' END, '{}', '', 1000, 1073741824, 0, '', 0, false,
    CASE WHEN state = 'queued' THEN 0 ELSE 1 END, '{}', at, at,
    CASE WHEN state = 'queued' THEN NULL ELSE at + interval '20 seconds' END,
    CASE WHEN state = 'queued' THEN NULL ELSE at + interval '20 seconds' + r * interval '2 hours' END,
    CASE WHEN state = 'queued' THEN NULL ELSE md5('attempt' || n)::uuid END, 4
FROM (
    SELECT n, hash, r, now() - (%(days)s - %(days)s * n::float8 / %(jobs)s) * interval '1 day' AS at,
           CASE WHEN hash %% 1000 < %(waiting)s THEN 'queued' WHEN r < 0.85 THEN 'succeeded' WHEN r < 0.97 THEN 'failed'
                ELSE 'stopped' END AS state
    FROM (SELECT n, abs(hashint8(n))::bigint AS hash, (abs(hashint8(n * 7919)) %% 1000) / 1000.0 AS r
          FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n) AS numbers
) AS drawn JOIN bench_tenants t ON t.place = drawn.hash %% (SELECT count(*) FROM bench_tenants)
"""

_ATTEMPTS = """
INSERT INTO jobs_attempt (
    id, job_id, tenant_id, number, state, outcome, cluster_id, pool_id, cluster_name, pool_name, gpus_simulated, isolation,
    created_at, stop_cause, condition, tries, last_error, logs_stored, outputs_stored, forgotten
)
SELECT attempt_id, id, tenant_id, 1, 'ended', state, tenant_id, tenant_id, 'local', 'cpu', false, '', submitted_at, '', '', 0, '',
       true, true, true
FROM jobs_job WHERE attempt_id IS NOT NULL
"""

_COUNTS = """
INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number)
SELECT tenant_id, queue_id, state, count(*) FROM jobs_job JOIN bench_tenants t ON t.id = tenant_id GROUP BY 1, 2, 3
"""
