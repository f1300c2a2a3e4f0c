"""What engines say that they can do; whether a cluster is enabled decides what is refused at submission, and so leaves a mark."""

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

TABLE = "clusters_cluster"


def mark_columns(schema_editor, columns):
    drop_triggers(schema_editor, TABLE)
    add_triggers(schema_editor, TABLE, columns)


def mark_enabled(apps, schema_editor):
    mark_columns(schema_editor, ("name", "is_enabled"))


def mark_name(apps, schema_editor):
    mark_columns(schema_editor, ("name",))


class Migration(migrations.Migration):
    dependencies = [("clusters", "0006_maintenance"), ("webapi", "0002_facts")]
    operations = [
        migrations.AddField("cluster", "abilities", models.JSONField(null=True)),
        migrations.RunPython(mark_enabled, mark_name),
    ]
