"""Changes of what requests remember leave a mark (`webapi.facts`)."""

from django.db import migrations

from webapi.facts import add_triggers, drop_triggers

TABLES = {
    "clusters_cluster": ("name",),
    "clusters_pool": ("cluster_id", "name", "gpu_model"),
}


def add(apps, schema_editor):
    for table, columns in TABLES.items():
        add_triggers(schema_editor, table, columns)


def remove(apps, schema_editor):
    for table in TABLES:
        drop_triggers(schema_editor, table)


class Migration(migrations.Migration):
    dependencies = [("clusters", "0002_quarantine"), ("webapi", "0002_facts")]
    operations = [migrations.RunPython(add, remove)]
