"""How long jobs of a queue are taken to run, for planning, and marks of its changes for what requests remember (`webapi.facts`)."""

from importlib import import_module

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

RULES = import_module("tenants.migrations.0006_capacity").RULES
BEFORE = ("queue_id", "max_runtime_seconds", "max_jobs", "max_containers")


def add(apps, schema_editor):
    drop_triggers(schema_editor, RULES)  # Where adding the constraint copied the table, they went with the old one.
    add_triggers(schema_editor, RULES, (*BEFORE, "default_runtime_seconds"))


def remove(apps, schema_editor):
    drop_triggers(schema_editor, RULES)
    add_triggers(schema_editor, RULES, BEFORE)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0023_disabled_tenants")]
    operations = [
        migrations.AddField("queuerule", "default_runtime_seconds", models.BigIntegerField(null=True)),
        migrations.AddConstraint(
            "queuerule",
            models.CheckConstraint(
                condition=models.Q(("default_runtime_seconds__isnull", True), ("default_runtime_seconds__gte", 1), _connector="OR"),
                name="queue_rule_default_runtime_positive",
            ),
        ),
        migrations.RunPython(add, remove),
    ]
