"""The scheduler's decisions, kept."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_attempt_evicted_for")]
    operations = [
        migrations.CreateModel(
            name="DecisionRecord",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("job_id", models.UUIDField()),
                ("tenant_id", models.UUIDField()),
                ("kind", models.CharField(max_length=20)),
                ("pool", models.CharField(blank=True, default="", max_length=255)),
                ("payload", models.JSONField(default=dict)),
            ],
            options={"indexes": [models.Index(fields=["job_id", "id"], name="decision_by_job")]},
        ),
    ]
