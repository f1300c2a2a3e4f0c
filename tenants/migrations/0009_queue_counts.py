"""How many jobs and containers a tenant may have, and marks of changed caps for what requests remember (`webapi.facts`)."""

from importlib import import_module

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

RULES = import_module("tenants.migrations.0006_capacity").RULES
CAPS = "tenants_usercap"


def add(apps, schema_editor):
    drop_triggers(schema_editor, RULES)
    add_triggers(schema_editor, RULES, ("queue_id", "max_runtime_seconds", "max_jobs", "max_containers"))
    add_triggers(schema_editor, CAPS, ("tenant_id", "user_id", "gpu_millis", "jobs", "containers"))


def remove(apps, schema_editor):
    drop_triggers(schema_editor, CAPS)
    drop_triggers(schema_editor, RULES)
    add_triggers(schema_editor, RULES, ("queue_id", "max_runtime_seconds"))


class Migration(migrations.Migration):
    dependencies = [("tenants", "0008_quota_requests")]
    operations = [
        migrations.AddField("queuerule", "max_jobs", models.BigIntegerField(null=True)),
        migrations.AddField("queuerule", "max_containers", models.BigIntegerField(null=True)),
        migrations.RunPython(add, remove),
    ]
