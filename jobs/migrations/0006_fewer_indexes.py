"""Takes away the indexes of jobs, attempts, tasks and specs that another index of the same table answers for, or nobody asks.

An array's child was written into sixteen indexes and stands in five now. The release before works on without them.
"""

from django.db import migrations, models
from django.db.models import Q

TOP = Q(parent__isnull=True)
NEW = (
    models.Index(fields=["tenant", "name", "-id"], condition=TOP, name="job_top_name"),
    models.Index(fields=["user", "-id"], condition=TOP, name="job_top_user"),
    models.Index(fields=["-ended_at"], condition=Q(ended_at__isnull=False), name="job_ended"),
)
OLD = (
    models.Index(fields=["tenant", "-id"], name="job_by_tenant"),
    models.Index(fields=["tenant", "state", "-id"], name="job_by_state"),
    models.Index(fields=["tenant", "name", "-id"], name="job_by_name"),
    models.Index(fields=["user", "-id"], name="job_by_user"),
)
# Foreign keys whose index Django made.
KEYS = {
    ("Job", "tenant"): ("tenants.Tenant", models.PROTECT, {"related_name": "+"}),
    ("Job", "queue"): ("tenants.Queue", models.PROTECT, {"related_name": "+"}),
    ("Job", "user"): ("tenants.User", models.PROTECT, {"related_name": "+"}),
    ("Job", "spec"): ("jobs.StoredSpec", models.PROTECT, {"related_name": "+"}),
    ("Job", "parent"): ("jobs.job", models.PROTECT, {"related_name": "children", "null": True}),
    ("Job", "origin"): ("jobs.job", models.SET_NULL, {"related_name": "+", "null": True}),
    ("Job", "attempt"): ("jobs.Attempt", models.SET_NULL, {"related_name": "+", "null": True}),
    ("StoredSpec", "tenant"): ("tenants.Tenant", models.PROTECT, {"related_name": "+"}),
    ("Attempt", "job"): ("jobs.Job", models.PROTECT, {"related_name": "attempts"}),
    ("Task", "attempt"): ("jobs.Attempt", models.PROTECT, {"related_name": "tasks"}),
}


def _of_key(schema_editor, model, name):
    column = model._meta.get_field(name).column
    return models.Index(fields=[name], name=schema_editor._create_index_name(model._meta.db_table, [column]))


def _make(schema_editor, model, index):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}")  # Half of one, from a run that was broken off.
        schema_editor.execute(index.create_sql(model, schema_editor, concurrently=True))
    else:
        schema_editor.add_index(model, index)


def _drop(schema_editor, index):
    beside = "CONCURRENTLY " if schema_editor.connection.vendor == "postgresql" else ""
    schema_editor.execute(f'DROP INDEX {beside}IF EXISTS "{index.name}"')


def forwards(apps, schema_editor):
    job = apps.get_model("jobs", "Job")
    for index in NEW:
        _make(schema_editor, job, index)
    for index in OLD:
        _drop(schema_editor, index)
    for label, name in KEYS:
        _drop(schema_editor, _of_key(schema_editor, apps.get_model("jobs", label), name))


def backwards(apps, schema_editor):
    job = apps.get_model("jobs", "Job")
    for label, name in KEYS:
        model = apps.get_model("jobs", label)
        _make(schema_editor, model, _of_key(schema_editor, model, name))
    for index in OLD:
        _make(schema_editor, job, index)
    for index in NEW:
        _drop(schema_editor, index)


class Migration(migrations.Migration):
    atomic = False  # CREATE and DROP INDEX CONCURRENTLY.
    dependencies = [("jobs", "0005_tags")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(forwards, backwards)],
            state_operations=[
                *(migrations.RemoveIndex("job", index.name) for index in OLD),
                *(migrations.AddIndex("job", index) for index in NEW),
                *(
                    migrations.AlterField(label, name, models.ForeignKey(to, on_delete=gone, db_index=False, **more))
                    for (label, name), (to, gone, more) in KEYS.items()
                ),
            ],
        ),
    ]
