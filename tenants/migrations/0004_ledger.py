"""Prices, days, budgets and statements. What the ledger holds already is counted into days by the first sweeps.

Whoever writes an entry leaves its id in `LedgerPending`, by a trigger, so that entries of the release before are counted as well.
Prices and statements never change, by triggers too.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

import kernel.ids

RESOURCES = ("cpu_millis", "memory_bytes", "gpu_millis")
KINDS = ("money", "gpu_time")
FIXED = (
    ("price_never_changes", "tenants_price", "a price never changes"),
    ("statement_never_changes", "tenants_statement", "a statement never changes"),
)
PENDING_ON_POSTGRESQL = (
    """
    CREATE FUNCTION ledger_pending() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO tenants_ledgerpending (entry_id) SELECT id FROM fresh;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER ledger_pending AFTER INSERT ON tenants_ledgerentry REFERENCING NEW TABLE AS fresh "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_pending()",
)
PENDING_ON_SQLITE = (
    "CREATE TRIGGER ledger_pending AFTER INSERT ON tenants_ledgerentry BEGIN "
    "INSERT INTO tenants_ledgerpending (entry_id) VALUES (NEW.id); END",
)


def add(apps, schema_editor):
    """The trigger first: on PostgreSQL it keeps writers out until this transaction commits, so that no entry is left out."""
    on_postgresql = schema_editor.connection.vendor == "postgresql"
    for statement in PENDING_ON_POSTGRESQL if on_postgresql else PENDING_ON_SQLITE:
        schema_editor.execute(statement)
    schema_editor.execute("INSERT INTO tenants_ledgerpending (entry_id) SELECT id FROM tenants_ledgerentry")
    for name, table, message in FIXED:
        if on_postgresql:
            schema_editor.execute(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
            )
            schema_editor.execute(f"CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()")
        else:
            schema_editor.execute(f"CREATE TRIGGER {name} BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, '{message}'); END")


def remove(apps, schema_editor):
    for name, table in (("ledger_pending", "tenants_ledgerentry"), *(row[:2] for row in FIXED)):
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP TRIGGER {name} ON {table}")
            schema_editor.execute(f"DROP FUNCTION {name}()")
        else:
            schema_editor.execute(f"DROP TRIGGER {name}")


def identity():
    return models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_facts")]
    operations = [
        migrations.CreateModel(
            name="Price",
            fields=[
                ("id", identity()),
                ("pool_id", models.UUIDField()),
                ("resource", models.CharField(choices=[(name, name) for name in RESOURCES], max_length=20)),
                ("micros_per_hour", models.BigIntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("effective_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="prices",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["pool_id", "resource", "effective_at"], name="price_once_at_a_moment"),
                    models.CheckConstraint(condition=Q(micros_per_hour__gte=0), name="price_not_negative"),
                    models.CheckConstraint(condition=Q(resource__in=RESOURCES), name="price_resource_known"),
                ]
            },
        ),
        migrations.CreateModel(name="LedgerPending", fields=[("entry_id", models.UUIDField(primary_key=True, serialize=False))]),
        migrations.CreateModel(
            name="UsageDay",
            fields=[
                ("id", identity()),
                ("day", models.IntegerField()),
                ("billed", models.IntegerField()),
                ("tenant_id", models.UUIDField()),
                ("queue_id", models.UUIDField()),
                ("user_id", models.UUIDField()),
                ("pool_id", models.UUIDField()),
                ("fate", models.CharField(max_length=10)),
                ("attempts", models.BigIntegerField(default=0)),
                ("cpu_milli_seconds", models.BigIntegerField(default=0)),
                ("memory_mib_seconds", models.BigIntegerField(default=0)),
                ("memory_rest_seconds", models.BigIntegerField(default=0)),
                ("gpu_milli_seconds", models.BigIntegerField(default=0)),
                ("cpu_micros", models.BigIntegerField(default=0)),
                ("memory_micros", models.BigIntegerField(default=0)),
                ("gpu_micros", models.BigIntegerField(default=0)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["day"], name="usage_day"),
                    models.Index(fields=["billed", "tenant_id"], name="usage_day_billed"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=["tenant_id", "day", "billed", "queue_id", "user_id", "pool_id", "fate"], name="usage_day_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                ("id", identity()),
                ("kind", models.CharField(choices=[(kind, kind) for kind in KINDS], max_length=10)),
                ("amount", models.BigIntegerField()),
                ("warn_at", models.JSONField(default=list)),
                ("stops", models.BooleanField(default=False)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("spent", models.BigIntegerField(default=0)),
                ("spent_month", models.IntegerField(default=0)),
                ("spent_at", models.DateTimeField(null=True)),
                ("level", models.IntegerField(default=0)),
                (
                    "queue",
                    models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name="budget", to="tenants.queue"),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=Q(amount__gte=0), name="budget_not_negative"),
                    models.CheckConstraint(condition=Q(kind__in=list(KINDS)), name="budget_kind_known"),
                ]
            },
        ),
        migrations.CreateModel(
            name="Statement",
            fields=[
                ("id", identity()),
                ("month", models.IntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("document", models.TextField()),
                ("sha256", models.CharField(max_length=64)),
                ("closed_at", models.DateTimeField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="statements", to="tenants.tenant"
                    ),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=["tenant", "month"], name="statement_once_a_month")]},
        ),
        migrations.AddField(model_name="ledgerentry", name="fate", field=models.CharField(max_length=10, null=True)),
        migrations.RunPython(add, remove),
    ]
