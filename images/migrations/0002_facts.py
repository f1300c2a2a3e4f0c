"""Changes of what requests remember leave a mark (`webapi.facts`)."""

from django.db import migrations

from webapi.facts import add_triggers, drop_triggers

TABLES = {
    "images_image": ("tenant_id", "name", "kind", "state", "digest", "reference", "location", "error", "is_deleted"),
}


def add(apps, schema_editor):
    for table, columns in TABLES.items():
        add_triggers(schema_editor, table, columns)


def remove(apps, schema_editor):
    for table in TABLES:
        drop_triggers(schema_editor, table)


class Migration(migrations.Migration):
    dependencies = [("images", "0001_initial"), ("webapi", "0002_facts")]
    operations = [migrations.RunPython(add, remove)]
