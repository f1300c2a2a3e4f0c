"""Marks of what requests remember, and on PostgreSQL the function that leaves one. Each app adds triggers to its own tables."""

from django.db import migrations, models

from webapi.facts import MARK


def add_function(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            f"CREATE FUNCTION webapi_mark_facts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {MARK['postgresql']}; RETURN NULL; END $$"
        )


def remove_function(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION webapi_mark_facts()")


class Migration(migrations.Migration):
    dependencies = [("webapi", "0001_initial")]
    operations = [
        migrations.CreateModel(
            name="FactMark",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("salt", models.BigIntegerField()),
            ],
        ),
        migrations.RunPython(add_function, remove_function),
    ]
