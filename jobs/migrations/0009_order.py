"""Where a waiting job was moved to, and requests for a higher priority."""

import django.db.models.deletion
import kernel.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0008_decision_records"),
        ("tenants", "0007_grants"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="placed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name="PriorityRequest",
            fields=[
                ("id", models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("priority", models.IntegerField()),
                ("state", models.CharField(default="pending", max_length=10)),
                ("reason", models.CharField(blank=True, default="", max_length=1000)),
                ("starts_at", models.DateTimeField(null=True)),
                ("ends_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
                ("answer", models.CharField(blank=True, default="", max_length=1000)),
                (
                    "created_by",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="priority_requests", to="jobs.job"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="priority_requests", to="tenants.tenant"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="priority_requests", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant", "id"], name="priority_request_tenant"),
                    models.Index(
                        condition=models.Q(("state", "pending")), fields=["expires_at"], name="priority_request_pending"
                    ),
                    models.Index(
                        condition=models.Q(("job__isnull", True), ("state", "approved")),
                        fields=["user", "ends_at"],
                        name="priority_request_window",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "pending")), fields=("job",), name="priority_request_one_per_job"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ("pending", "approved", "denied", "withdrawn", "expired", "revoked"))),
                        name="priority_request_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__gte", 0), ("priority__lte", 1000)), name="priority_request_in_range"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ends_at__isnull", True), ("job__isnull", False), ("starts_at__isnull", True)),
                            models.Q(("ends_at__gt", models.F("starts_at")), ("job__isnull", True), ("starts_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="priority_request_job_or_window",
                    ),
                ],
            },
        ),
    ]
