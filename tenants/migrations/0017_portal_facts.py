"""Changes of which features are on leave a mark (`webapi.facts`)."""

from django.db import migrations

from webapi.facts import add_triggers, drop_triggers

TABLE, COLUMNS = "tenants_featuresetting", ("tenant_id", "name", "enabled")


def add(apps, schema_editor):
    add_triggers(schema_editor, TABLE, COLUMNS)


def remove(apps, schema_editor):
    drop_triggers(schema_editor, TABLE)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0016_portal"), ("webapi", "0002_facts")]
    operations = [migrations.RunPython(add, remove)]
