"""Indexes that hold the jobs of lists in their orders, and one for text in names and tags. Built beside writers on PostgreSQL.

All are partial: the children of arrays, which can be a hundred times as many, stand in none of them. On SQLite, which has no
index for parts of words, a table of three-letter pieces is kept by triggers.
"""

import structlog
from django.db import migrations, models
from django.db.models import Q
from django.db.utils import DatabaseError

TOP = Q(parent__isnull=True)
ENDED = Q(parent__isnull=True, ended_at__isnull=False)
INDEXES = (
    models.Index(fields=["-id"], condition=TOP, name="job_top"),
    models.Index(fields=["tenant", "-id"], condition=TOP, name="job_top_tenant"),
    models.Index(fields=["state", "-id"], condition=TOP, name="job_top_state"),
    models.Index(fields=["tenant", "state", "-id"], condition=TOP, name="job_top_tenant_state"),
    models.Index(fields=["-priority", "-id"], condition=TOP, name="job_top_priority"),
    models.Index(fields=["tenant", "-priority", "-id"], condition=TOP, name="job_top_tenant_priority"),
    models.Index(fields=["-ended_at", "-id"], condition=ENDED, name="job_top_ended"),
    models.Index(fields=["tenant", "-ended_at", "-id"], condition=ENDED, name="job_top_tenant_ended"),
)
TEXT = "upper(name || ' ' || tags::text)"  # As `jobs/selectors/text.py` asks for it.
WITHOUT_TRIGRAMS = (
    "The user of this database may not create the extension pg_trgm, so that looking for text in jobs will read all of them. Let an "
    f"administrator run: CREATE EXTENSION pg_trgm; CREATE INDEX CONCURRENTLY job_text ON jobs_job USING gin (({TEXT}) "
    "gin_trgm_ops) WHERE parent_id IS NULL"
)


def add_indexes(apps, schema_editor):
    job = apps.get_model("jobs", "Job")
    for index in INDEXES:
        if schema_editor.connection.vendor != "postgresql":
            schema_editor.add_index(job, index)
            continue
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}")  # Half of one, from a run that was broken off.
        schema_editor.execute(index.create_sql(job, schema_editor, concurrently=True))


def remove_indexes(apps, schema_editor):
    for index in INDEXES:
        schema_editor.execute(f"DROP INDEX IF EXISTS {index.name}")


def add_text(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        try:
            schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        except DatabaseError as error:
            structlog.get_logger("migrations").warning("no_trigram_index", advice=WITHOUT_TRIGRAMS, error=str(error).strip())
            return
        schema_editor.execute("DROP INDEX CONCURRENTLY IF EXISTS job_text")
        schema_editor.execute(
            f"CREATE INDEX CONCURRENTLY job_text ON jobs_job USING gin (({TEXT}) gin_trgm_ops) WHERE parent_id IS NULL"
        )
        return
    text = "{row}.name || ' ' || coalesce((SELECT group_concat(value, ' ') FROM json_each({row}.tags)), '')"
    for statement in (
        "CREATE VIRTUAL TABLE jobs_job_text USING fts5(job_id UNINDEXED, text, tokenize='trigram')",
        f"INSERT INTO jobs_job_text SELECT id, {text.format(row='jobs_job')} FROM jobs_job WHERE parent_id IS NULL",
        "CREATE TRIGGER jobs_job_text_insert AFTER INSERT ON jobs_job WHEN NEW.parent_id IS NULL "
        f"BEGIN INSERT INTO jobs_job_text VALUES (NEW.id, {text.format(row='NEW')}); END",
        "CREATE TRIGGER jobs_job_text_update AFTER UPDATE OF name, tags ON jobs_job "
        "WHEN NEW.parent_id IS NULL AND (OLD.name IS NOT NEW.name OR OLD.tags IS NOT NEW.tags) BEGIN "
        f"UPDATE jobs_job_text SET text = {text.format(row='NEW')} WHERE job_id = NEW.id; END",
        "CREATE TRIGGER jobs_job_text_delete AFTER DELETE ON jobs_job WHEN OLD.parent_id IS NULL "
        "BEGIN DELETE FROM jobs_job_text WHERE job_id = OLD.id; END",
    ):
        schema_editor.execute(statement)


def remove_text(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX IF EXISTS job_text")
        return
    for name in ("insert", "update", "delete"):
        schema_editor.execute(f"DROP TRIGGER jobs_job_text_{name}")
    schema_editor.execute("DROP TABLE jobs_job_text")


class Migration(migrations.Migration):
    atomic = False  # CREATE INDEX CONCURRENTLY.
    dependencies = [("jobs", "0002_terminal_states")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(add_indexes, remove_indexes)],
            state_operations=[migrations.AddIndex("job", index) for index in INDEXES],
        ),
        migrations.RunPython(add_text, remove_text),
    ]
