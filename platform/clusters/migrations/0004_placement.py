"""Rules of pools, and taints that operators give to nodes. SQLite writes a table anew to add such a column, without its triggers."""

from importlib import import_module

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

TABLES = import_module("clusters.migrations.0003_facts").TABLES


def add_again(apps, schema_editor):
    for table, columns in TABLES.items():
        drop_triggers(schema_editor, table)
        add_triggers(schema_editor, table, columns)


class Migration(migrations.Migration):
    dependencies = [("clusters", "0003_facts")]
    operations = [
        migrations.AddField("node", "taints", models.JSONField(null=True)),
        migrations.AddField("pool", "rules", models.JSONField(null=True)),
        migrations.AddField("pool", "version", models.PositiveIntegerField(db_default=1, default=1)),
        migrations.RunPython(add_again, migrations.RunPython.noop),
    ]
