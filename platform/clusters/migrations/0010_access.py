"""Clusters that operators add: sealed credentials, what may be told of them, and a version by which engines are made anew.

SQLite writes the table anew for such columns, without its triggers."""

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

TABLE = "clusters_cluster"


def add_again(apps, schema_editor):
    drop_triggers(schema_editor, TABLE)
    add_triggers(schema_editor, TABLE, ("name", "is_enabled"))


class Migration(migrations.Migration):
    dependencies = [("clusters", "0009_learned_weights")]
    operations = [
        migrations.AddField("cluster", "credentials_sealed", models.TextField(blank=True, db_default="", default="")),
        migrations.AddField("cluster", "access", models.JSONField(null=True)),
        migrations.AddField("cluster", "version", models.PositiveIntegerField(db_default=1, default=1)),
        migrations.RunPython(add_again, migrations.RunPython.noop),
    ]
