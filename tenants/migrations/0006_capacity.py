"""Edits of limits, caps per person, time limits of queues, and bookings. A changed time limit leaves a mark (`webapi.facts`)."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import kernel.ids
from webapi.facts import add_triggers, drop_triggers

RULES = "tenants_queuerule"


def add(apps, schema_editor):
    add_triggers(schema_editor, RULES, ("queue_id", "max_runtime_seconds"))


def remove(apps, schema_editor):
    drop_triggers(schema_editor, RULES)


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0005_ledger_long"),
    ]

    operations = [
        migrations.CreateModel(
            name="QueueRule",
            fields=[
                (
                    "queue",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="rule",
                        serialize=False,
                        to="tenants.queue",
                    ),
                ),
                ("max_runtime_seconds", models.BigIntegerField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_runtime_seconds__isnull", True), ("max_runtime_seconds__gte", 1), _connector="OR"
                        ),
                        name="queue_rule_runtime_positive",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Booking",
            fields=[
                ("id", models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("pool_id", models.UUIDField()),
                ("gpu_millis", models.BigIntegerField()),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        default="held",
                        max_length=10,
                    ),
                ),
                ("comment", models.CharField(blank=True, default="", max_length=1000)),
                ("created_at", models.DateTimeField()),
                ("claimed_at", models.DateTimeField(null=True)),
                ("released_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="bookings",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="bookings", to="tenants.queue"),
                ),
                (
                    "tenant",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="bookings", to="tenants.tenant"),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("state", "held")), fields=["pool_id", "starts_at"], name="booking_held"),
                    models.Index(fields=["tenant", "id"], name="booking_tenant"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="booking_ends_after_start"
                    ),
                    models.CheckConstraint(condition=models.Q(("gpu_millis__gte", 1)), name="booking_of_something"),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["held", "ended", "no_show", "cancelled"])), name="booking_state_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="QuotaEdit",
            fields=[
                ("id", models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "state",
                    models.CharField(
                        default="pending",
                        max_length=10,
                    ),
                ),
                ("changes", models.JSONField()),
                ("before", models.JSONField(default=list)),
                ("problems", models.JSONField(default=list)),
                ("comment", models.CharField(blank=True, default="", max_length=1000)),
                ("effective_from", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="quota_edits",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="quota_edits", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("state", "pending")), fields=["effective_from"], name="quota_edit_pending"),
                    models.Index(fields=["tenant", "id"], name="quota_edit_tenant"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["pending", "applied", "cancelled", "refused"])),
                        name="quota_edit_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decided_at__isnull", True), ("state", "pending")),
                            models.Q(models.Q(("state", "pending"), _negated=True), ("decided_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="quota_edit_decided_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="UserCap",
            fields=[
                ("id", models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("gpu_millis", models.BigIntegerField(null=True)),
                ("jobs", models.BigIntegerField(null=True)),
                ("containers", models.BigIntegerField(null=True)),
                (
                    "tenant",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="user_caps", to="tenants.tenant"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="caps", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "user"), name="user_cap_unique"),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", True)), fields=("tenant",), name="user_cap_one_for_everybody"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("gpu_millis__isnull", True), ("gpu_millis__gte", 0), _connector="OR"),
                            models.Q(("jobs__isnull", True), ("jobs__gte", 0), _connector="OR"),
                            models.Q(("containers__isnull", True), ("containers__gte", 0), _connector="OR"),
                        ),
                        name="user_cap_not_negative",
                    ),
                ],
            },
        ),
        migrations.RunPython(add, remove),
    ]
