"""What waiting jobs wanted, by the hour, and signed statements of shares, which never change, by a trigger."""

import django.db.models.deletion
from django.db import migrations, models

import kernel.ids

NAME, TABLE, MESSAGE = "share_statement_never_changes", "tenants_sharestatement", "a statement of shares never changes"


def add(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            f"CREATE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{MESSAGE}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
        )
        schema_editor.execute(f"CREATE TRIGGER {NAME} BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {NAME}()")
    else:
        schema_editor.execute(f"CREATE TRIGGER {NAME} BEFORE UPDATE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END")


def remove(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"DROP TRIGGER {NAME} ON {TABLE}")
        schema_editor.execute(f"DROP FUNCTION {NAME}()")
    else:
        schema_editor.execute(f"DROP TRIGGER {NAME}")


def identity():
    return models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0009_queue_counts"),
    ]

    operations = [
        migrations.CreateModel(
            name="DemandHour",
            fields=[
                ("id", identity()),
                ("hour", models.IntegerField()),
                ("queue_id", models.UUIDField()),
                ("pool_id", models.UUIDField()),
                ("cpu_milli_seconds", models.BigIntegerField(default=0)),
                ("gpu_milli_seconds", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("hour", "queue_id", "pool_id"), name="demand_once_an_hour"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ShareStatement",
            fields=[
                ("id", identity()),
                ("week", models.IntegerField()),
                ("document", models.TextField()),
                ("sha256", models.CharField(max_length=64)),
                ("signature", models.CharField(max_length=128)),
                ("public_key", models.CharField(max_length=64)),
                ("closed_at", models.DateTimeField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="share_statements", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("tenant", "week"), name="share_statement_once_a_week")],
            },
        ),
        migrations.RunPython(add, remove),
    ]
