"""Queues that are deleted, and kept for the record. It leaves a mark for what requests remember (`webapi.facts`)."""

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

QUEUES = "tenants_queue"
BEFORE = ("tenant_id", "parent_id", "name", "path", "is_top")


def add(apps, schema_editor):
    drop_triggers(schema_editor, QUEUES)
    add_triggers(schema_editor, QUEUES, (*BEFORE, "deleted_at"))


def remove(apps, schema_editor):
    drop_triggers(schema_editor, QUEUES)
    add_triggers(schema_editor, QUEUES, BEFORE)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0024_default_runtime")]
    operations = [
        migrations.AddField("queue", "deleted_at", models.DateTimeField(null=True)),
        migrations.RunPython(add, remove),
    ]
