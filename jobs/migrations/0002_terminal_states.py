"""A terminal row never changes its state, whatever code there is or will be (invariant I4)."""

from django.db import migrations

TERMINAL = {
    "jobs_job": "'succeeded', 'failed', 'stopped'",
    "jobs_attempt": "'ended'",
    "jobs_task": "'succeeded', 'failed', 'stopped'",
}


def install(apps, schema_editor):
    vendor = schema_editor.connection.vendor
    if vendor == "postgresql":
        schema_editor.execute(
            "CREATE FUNCTION berth_terminal_state() RETURNS trigger LANGUAGE plpgsql AS $$ "
            "BEGIN RAISE EXCEPTION 'a terminal row of % never changes its state', TG_TABLE_NAME "
            "USING ERRCODE = 'integrity_constraint_violation'; END $$",
            params=None,  # The per cent sign belongs to RAISE, not to the driver.
        )
    for table, states in TERMINAL.items():
        if vendor == "postgresql":
            schema_editor.execute(
                f"CREATE TRIGGER {table}_terminal BEFORE UPDATE OF state ON {table} FOR EACH ROW "
                f"WHEN (OLD.state IN ({states}) AND NEW.state IS DISTINCT FROM OLD.state) "
                "EXECUTE FUNCTION berth_terminal_state()"
            )
        else:
            schema_editor.execute(
                f"CREATE TRIGGER {table}_terminal BEFORE UPDATE OF state ON {table} "
                f"WHEN OLD.state IN ({states}) AND NEW.state IS NOT OLD.state "
                f"BEGIN SELECT RAISE(ABORT, 'a terminal row of {table} never changes its state'); END"
            )


def remove(apps, schema_editor):
    vendor = schema_editor.connection.vendor
    for table in TERMINAL:
        schema_editor.execute(f"DROP TRIGGER {table}_terminal" + (f" ON {table}" if vendor == "postgresql" else ""))
    if vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION berth_terminal_state()")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]
    operations = [migrations.RunPython(install, remove)]
