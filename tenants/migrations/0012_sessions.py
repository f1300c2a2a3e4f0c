"""Browsers sign in: their sessions are tokens of another kind. The last release writes rows without the new columns."""

from django.db import migrations, models

from webapi.facts import add_triggers, drop_triggers

TOKENS = "tenants_token"


def add(apps, schema_editor):
    add_triggers(schema_editor, TOKENS, ("user_id", "prefix", "digest", "scopes", "expires_at", "revoked_at"))


def drop(apps, schema_editor):
    drop_triggers(schema_editor, TOKENS)


KIND = models.CharField(
    choices=[("personal", "Personal"), ("session", "Session")], db_default="personal", default="personal", max_length=10
)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0011_node_budgets")]
    operations = [
        migrations.RunPython(drop, add),  # SQLite makes the table anew and would forget them.
        migrations.AddField("token", "kind", KIND),
        migrations.AddField("token", "agent", models.CharField(blank=True, db_default="", default="", max_length=200)),
        migrations.AddField("token", "address", models.CharField(blank=True, db_default="", default="", max_length=45)),
        migrations.CreateModel(
            "BrowserSession",
            fields=[],
            options={"proxy": True, "indexes": [], "constraints": []},
            bases=("tenants.token",),
        ),
        migrations.RunPython(add, drop),
    ]
