"""What a container image is built from.

SQLite makes a table anew that gets such a column, without the triggers of what requests remember: they are added again.
"""

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

TABLE = "images_image"
COLUMNS = ("tenant_id", "name", "kind", "state", "digest", "reference", "location", "error", "is_deleted")


def put_back(apps, schema_editor):
    drop_triggers(schema_editor, TABLE)
    add_triggers(schema_editor, TABLE, COLUMNS)


class Migration(migrations.Migration):

    dependencies = [("images", "0003_registry_accounts"), ("webapi", "0002_facts")]

    operations = [
        migrations.AddField("image", "containerfile", models.TextField(blank=True, db_default="", default="")),
        migrations.AddField("image", "base", models.CharField(blank=True, db_default="", default="", max_length=500)),
        migrations.AddField("image", "context_digest", models.CharField(blank=True, db_default="", default="", max_length=64)),
        migrations.RunPython(put_back, migrations.RunPython.noop),
    ]
