"""PostgreSQL finds jobs by a tag with an index, and knows how many hold a text before it decides how to look for it.

Without statistics on what is searched it takes every text for a rare one, collects all jobs that hold it and then sorts them: a
second for a word that is in each of a million names, where walking the list finds a page of them in milliseconds.
"""

from django.db import migrations

TEXT = "upper(name || ' ' || tags::text)"  # As `job_text` has it.


def add(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        return
    schema_editor.execute("DROP INDEX CONCURRENTLY IF EXISTS job_tags")
    schema_editor.execute(
        "CREATE INDEX CONCURRENTLY job_tags ON jobs_job USING gin (tags jsonb_path_ops) WHERE parent_id IS NULL"
    )
    schema_editor.execute(f"CREATE STATISTICS IF NOT EXISTS job_text_words ON ({TEXT}) FROM jobs_job")
    schema_editor.execute("ANALYZE jobs_job")


def remove(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP STATISTICS IF EXISTS job_text_words")
        schema_editor.execute("DROP INDEX IF EXISTS job_tags")


class Migration(migrations.Migration):
    atomic = False  # CREATE INDEX CONCURRENTLY.
    dependencies = [("jobs", "0004_counts")]
    operations = [migrations.RunPython(add, remove)]
