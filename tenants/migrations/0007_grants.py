"""The highest priority that each role may use by itself. A changed line leaves a mark (`webapi.facts`)."""

import django.db.models.deletion
from django.db import migrations, models

import kernel.ids
from webapi.facts import add_triggers, drop_triggers

GRANTS = "tenants_prioritygrant"


def add(apps, schema_editor):
    add_triggers(schema_editor, GRANTS, ("tenant_id", "role", "priority"))


def remove(apps, schema_editor):
    drop_triggers(schema_editor, GRANTS)


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0006_capacity"),
    ]

    operations = [
        migrations.CreateModel(
            name="PriorityGrant",
            fields=[
                ("id", models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("role", models.CharField(max_length=10)),
                ("priority", models.IntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="priority_grants", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "role"), name="priority_grant_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ["member", "manager"])), name="priority_grant_role_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__gte", 0), ("priority__lte", 1000)), name="priority_grant_in_range"
                    ),
                ],
            },
        ),
        migrations.RunPython(add, remove),
    ]
