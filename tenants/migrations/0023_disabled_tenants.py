"""Tenants that operators disable or delete. Both leave a mark for what requests remember (`webapi.facts`)."""

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

TENANTS = "tenants_tenant"
BEFORE = ("slug", "name", "number", "parent_id")


def add(apps, schema_editor):
    drop_triggers(schema_editor, TENANTS)
    add_triggers(schema_editor, TENANTS, (*BEFORE, "disabled_at", "disabled_reason", "deleted_at"))


def remove(apps, schema_editor):
    drop_triggers(schema_editor, TENANTS)
    add_triggers(schema_editor, TENANTS, BEFORE)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0022_claimed_addresses")]
    operations = [
        migrations.AddField("tenant", "disabled_at", models.DateTimeField(null=True)),
        migrations.AddField("tenant", "disabled_reason", models.CharField(max_length=500, null=True)),
        migrations.AddField("tenant", "deleted_at", models.DateTimeField(null=True)),
        migrations.RunPython(add, remove),
    ]
