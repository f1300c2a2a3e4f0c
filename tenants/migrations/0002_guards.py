"""What the ORM cannot say: a ledger entry never changes, and a tenant keeps its slug and number. On both databases."""

from django.db import migrations

RULES = (
    ("ledger_append_only", "tenants_ledgerentry", "UPDATE", "a ledger entry never changes"),
    ("tenant_identity_fixed", "tenants_tenant", "UPDATE OF slug, number", "a tenant keeps its slug and number"),
)


def add(apps, schema_editor):
    for name, table, event, message in RULES:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
            )
            schema_editor.execute(f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()")
        else:
            schema_editor.execute(
                f"CREATE TRIGGER {name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )


def remove(apps, schema_editor):
    for name, table, _event, _message in RULES:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP TRIGGER {name} ON {table}")
            schema_editor.execute(f"DROP FUNCTION {name}()")
        else:
            schema_editor.execute(f"DROP TRIGGER {name}")


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]
    operations = [migrations.RunPython(add, remove)]
