"""What a cluster runs and a restored database does not know. Only additions: the release before goes on beside it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="quarantine_looked_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="cluster",
            name="quarantine_since_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name="Quarantined",
            fields=[
                ("attempt_id", models.UUIDField(primary_key=True, serialize=False)),
                ("job_id", models.UUIDField(db_index=True, null=True)),
                ("number", models.IntegerField(null=True)),
                ("name", models.CharField(blank=True, default="", max_length=255)),
                ("tenant_key", models.CharField(blank=True, default="", max_length=255)),
                ("tasks", models.JSONField(default=list)),
                ("runs", models.BooleanField(default=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
                ("stop_asked_at", models.DateTimeField(null=True)),
                ("resolution", models.CharField(blank=True, default="", max_length=20)),
                ("resolved_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="quarantined", to="clusters.cluster"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("resolution", "")), fields=["cluster"], name="quarantined_open"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("resolution__in", ["", "adopted", "stopped", "gone"])),
                        name="quarantined_resolution_known",
                    ),
                ],
            },
        ),
    ]
