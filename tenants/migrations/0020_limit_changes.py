"""The history of limits in a table of its own. What is readable of the past comes from applied edits, which keep what they
replaced, and from the audit of limits that were set at once; audit rows of other shapes under the same verb are left out."""

import itertools
import uuid

import django.db.models.deletion
import kernel.ids
from django.db import migrations, models

BATCH = 1_000
COLUMNS = ("guarantee", "deserved", "ceiling", "weight")
NO_LIMIT = {"guarantee": 0, "deserved": None, "ceiling": None, "weight": 1}


def fill(apps, schema_editor):
    change = apps.get_model("tenants", "LimitChange")
    if change.objects.exists():  # Filled before, or written meanwhile: never twice.
        return
    queues = set(apps.get_model("tenants", "Queue").objects.values_list("id", flat=True))
    found = itertools.chain(of_edits(apps), of_audit(apps))
    rows = (change(id=kernel.ids.new_id(), **row) for row in found if row["queue_id"] in queues)
    while batch := list(itertools.islice(rows, BATCH)):
        change.objects.bulk_create(batch)


def of_edits(apps):
    edits = apps.get_model("tenants", "QuotaEdit").objects.filter(state="applied", decided_at__isnull=False)
    for at, before in edits.order_by("decided_at", "id").values_list("decided_at", "before").iterator(chunk_size=BATCH):
        for row in before:
            yield one(at, row["queue"], row["pool"], row["resource"], row)


def of_audit(apps):
    calls = apps.get_model("activity", "AuditEvent").objects.filter(verb="queue.limit").order_by("at", "id")
    for at, queue_id, before, after in calls.values_list("at", "target_id", "before", "after").iterator(chunk_size=BATCH):
        if not (is_limits(before or {}) and is_limits(after or {})):
            continue
        keys = {(pool, resource) for limits in (before or {}, after or {}) for pool, row in limits.items() for resource in row}
        for pool, resource in sorted(keys):
            yield one(at, queue_id, pool, resource, (before or {}).get(pool, {}).get(resource, NO_LIMIT))


def is_limits(limits):
    """Whether this is what limits look like: by pool and resource."""
    return all(
        is_id(pool) and isinstance(row, dict) and all(isinstance(limit, dict) and set(COLUMNS) <= set(limit) for limit in row.values())
        for pool, row in limits.items()
    )


def is_id(text):
    try:
        return bool(uuid.UUID(text))
    except ValueError:
        return False


def one(at, queue_id, pool_id, resource, limit):
    row = {"changed_at": at, "queue_id": uuid.UUID(queue_id), "pool_id": uuid.UUID(pool_id), "resource": resource}
    return row | {column: limit[column] for column in COLUMNS}


class Migration(migrations.Migration):
    dependencies = [("tenants", "0019_first_steps"), ("activity", "0001_initial")]
    operations = [
        migrations.CreateModel(
            name="LimitChange",
            fields=[
                ("id", models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("pool_id", models.UUIDField()),
                ("resource", models.CharField(max_length=20)),
                ("guarantee", models.BigIntegerField()),
                ("deserved", models.BigIntegerField(null=True)),
                ("ceiling", models.BigIntegerField(null=True)),
                ("weight", models.PositiveIntegerField()),
                ("changed_at", models.DateTimeField()),
                (
                    "queue",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="limit_changes", to="tenants.queue"
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["changed_at", "id"], name="limit_change_at")]},
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
