"""How many jobs there are of each tenant, queue and state: rows that are added up, written by triggers in the transaction of every change.

Whoever changes a job adds a row of its own and waits for nobody; a duty folds them (`jobs/services/counts.py`). Triggers, and not
our services, write them, so that a process of an older release, which knows nothing of them, counts as well.
"""

from django.db import migrations, models

GROUPED = "tenant_id, queue_id, state"

ON_POSTGRESQL = (
    """
    CREATE FUNCTION jobs_count_new() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number)
        SELECT tenant_id, queue_id, state, count(*) FROM fresh WHERE parent_id IS NULL GROUP BY tenant_id, queue_id, state;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION jobs_count_gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number)
        SELECT tenant_id, queue_id, state, -count(*) FROM gone WHERE parent_id IS NULL GROUP BY tenant_id, queue_id, state;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION jobs_count_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number)
        SELECT tenant_id, queue_id, state, sum(number) FROM (
            SELECT tenant_id, queue_id, state, 1 AS number FROM fresh WHERE parent_id IS NULL
            UNION ALL SELECT tenant_id, queue_id, state, -1 FROM gone WHERE parent_id IS NULL
        ) AS moved GROUP BY tenant_id, queue_id, state HAVING sum(number) <> 0;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER jobs_job_count_new AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS fresh "
    "FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_new()",
    "CREATE TRIGGER jobs_job_count_gone AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS gone "
    "FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_gone()",
    "CREATE TRIGGER jobs_job_count_moved AFTER UPDATE ON jobs_job REFERENCING OLD TABLE AS gone NEW TABLE AS fresh "
    "FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_moved()",
)
ADD = "INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number) VALUES ({row}.tenant_id, {row}.queue_id, {row}.state, {number})"
NEW_ROW, OLD_ROW = ADD.format(row="NEW", number=1), ADD.format(row="OLD", number=-1)
MOVED = "(OLD.state IS NOT NEW.state OR OLD.queue_id IS NOT NEW.queue_id)"
ON_SQLITE = (
    f"CREATE TRIGGER jobs_job_count_new AFTER INSERT ON jobs_job WHEN NEW.parent_id IS NULL BEGIN {NEW_ROW}; END",
    f"CREATE TRIGGER jobs_job_count_gone AFTER DELETE ON jobs_job WHEN OLD.parent_id IS NULL BEGIN {OLD_ROW}; END",
    f"CREATE TRIGGER jobs_job_count_moved AFTER UPDATE OF state, queue_id ON jobs_job WHEN NEW.parent_id IS NULL AND {MOVED} "
    f"BEGIN {OLD_ROW}; {NEW_ROW}; END",
)


def add(apps, schema_editor):
    """Triggers first: on PostgreSQL they keep writers out until this transaction commits, so that what is counted is all."""
    for statement in ON_POSTGRESQL if schema_editor.connection.vendor == "postgresql" else ON_SQLITE:
        schema_editor.execute(statement)
    schema_editor.execute(
        f"INSERT INTO jobs_jobcount ({GROUPED}, number) "
        f"SELECT {GROUPED}, count(*) FROM jobs_job WHERE parent_id IS NULL GROUP BY {GROUPED}"
    )


def remove(apps, schema_editor):
    on_postgresql = schema_editor.connection.vendor == "postgresql"
    for name in ("new", "gone", "moved"):
        schema_editor.execute(f"DROP TRIGGER jobs_job_count_{name}" + (" ON jobs_job" if on_postgresql else ""))
        if on_postgresql:
            schema_editor.execute(f"DROP FUNCTION jobs_count_{name}()")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_lists")]
    operations = [
        migrations.CreateModel(
            name="JobCount",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("tenant_id", models.UUIDField()),
                ("queue_id", models.UUIDField()),
                ("state", models.CharField(max_length=20)),
                ("number", models.BigIntegerField()),
            ],
            options={"indexes": [models.Index(fields=["tenant_id", "queue_id", "state"], name="job_count_tenant")]},
        ),
        migrations.RunPython(add, remove),
    ]
