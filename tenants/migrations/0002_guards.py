"""What the ORM cannot say: a ledger entry never changes, and a tenant keeps its slug and number. On both databases."""

from django.db import migrations

# Name, table, what the trigger looks at on each database, what it says.
RULES = (
    ("ledger_append_only", "tenants_ledgerentry", "TRUE", "1", "a ledger entry never changes"),
    (
        "tenant_identity_fixed",
        "tenants_tenant",
        "(OLD.slug, OLD.number) IS DISTINCT FROM (NEW.slug, NEW.number)",
        "OLD.slug <> NEW.slug OR OLD.number <> NEW.number",
        "a tenant keeps its slug and number",
    ),
)


def add(apps, schema_editor):
    for name, table, on_postgresql, on_sqlite, message in RULES:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
            )
            schema_editor.execute(
                f"CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW WHEN ({on_postgresql}) EXECUTE FUNCTION {name}()"
            )
        else:
            schema_editor.execute(
                f"CREATE TRIGGER {name} BEFORE UPDATE ON {table} WHEN {on_sqlite} BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )


def remove(apps, schema_editor):
    for name, table, *_ in RULES:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP TRIGGER {name} ON {table}")
            schema_editor.execute(f"DROP FUNCTION {name}()")
        else:
            schema_editor.execute(f"DROP TRIGGER {name}")


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]
    operations = [migrations.RunPython(add, remove)]
