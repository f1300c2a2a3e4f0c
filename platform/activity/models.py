"""Rows of the activity app. Everything above it (users, tenants, jobs) is a plain id here."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from kernel.ids import new_id


class Event(models.Model):
    """One outbox row: something happened. `row` is the order of writing, `seq` the one order of committing."""

    row = models.BigAutoField(primary_key=True)
    seq = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=60)
    tenant_id = models.UUIDField(null=True)
    subject_kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    job_id = models.UUIDField(null=True)
    data = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        # Partial: a row enters the reading indexes once, when it is numbered.
        constraints = [models.UniqueConstraint(fields=["seq"], condition=Q(seq__isnull=False), name="event_seq")]
        indexes = [
            models.Index(fields=["row"], condition=Q(seq__isnull=True), name="event_unnumbered"),
            models.Index(fields=["tenant_id", "seq"], condition=Q(seq__isnull=False), name="event_tenant"),
            models.Index(fields=["job_id", "seq"], condition=Q(seq__isnull=False), name="event_job"),
            models.Index(fields=["at"], name="event_at"),
        ]

    def __str__(self) -> str:
        return f"event {self.seq or self.row}: {self.kind} {self.subject_id}"


class AuditEvent(models.Model):
    """One accepted call: who did what to which object. `seq`, `previous_hash` and `hash` seal it into the chain."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    seq = models.BigIntegerField(null=True)
    previous_hash = models.CharField(max_length=64, blank=True, default="")
    hash = models.CharField(max_length=64, blank=True, default="")
    tenant_id = models.UUIDField(null=True)
    actor_id = models.UUIDField(null=True)
    actor_name = models.CharField(max_length=255)
    token_id = models.UUIDField(null=True)
    request_id = models.CharField(max_length=100, blank=True, default="")
    verb = models.CharField(max_length=60)
    target_kind = models.CharField(max_length=40)
    target_id = models.TextField(blank=True, default="")
    target_name = models.TextField(blank=True, default="")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    count = models.PositiveIntegerField(default=1)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["seq"], condition=Q(seq__isnull=False), name="audit_seq")]
        indexes = [
            models.Index(fields=["id"], condition=Q(seq__isnull=True), name="audit_unsealed"),
            models.Index(fields=["tenant_id", "id"], name="audit_tenant"),
            models.Index(fields=["actor_id", "id"], name="audit_actor"),
            models.Index(fields=["target_kind", "target_id", "id"], name="audit_target"),
        ]

    def __str__(self) -> str:
        return f"audit {self.seq or self.id}: {self.actor_name} {self.verb} {self.target_kind} {self.target_id}"


class Cursor(models.Model):
    """How far one reader or writer of an ordered table has come; `mark` carries what else it must remember (a hash)."""

    name = models.CharField(max_length=60, primary_key=True)
    seq = models.BigIntegerField(default=0)
    mark = models.CharField(max_length=64, blank=True, default="")

    def __str__(self) -> str:
        return f"cursor {self.name} at {self.seq}"


class Subscription(models.Model):
    """What one user wants to hear about, and where. `tenant_id` None: every tenant that the user can see.

    `channel` is a kind of `notifications/channels`; `target` is shown, what is secret of its fields is in `secret_sealed`.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user_id = models.UUIDField(db_index=True)
    tenant_id = models.UUIDField(null=True)
    kinds = models.JSONField(default=list)
    jobs = models.CharField(max_length=10, default="mine", choices=[("mine", "mine"), ("all", "all")])
    channel = models.CharField(max_length=10)
    target = models.CharField(max_length=2000, blank=True, default="")
    secret_sealed = models.TextField(blank=True, default="")
    is_active = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["tenant_id"], condition=Q(is_active=True), name="subscription_active")]

    def __str__(self) -> str:
        return f"subscription {self.id} of user {self.user_id} by {self.channel}"


class Delivery(models.Model):
    """One message to one subscription. Unique per event, so that a repeated fan-out cannot say anything twice."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="deliveries")
    event_seq = models.BigIntegerField(null=True)
    user_id = models.UUIDField()
    tenant_id = models.UUIDField(null=True)
    job_id = models.UUIDField(null=True)
    kind = models.CharField(max_length=20)
    payload = models.JSONField(default=dict)
    state = models.CharField(max_length=20, default="pending")
    tries = models.PositiveSmallIntegerField(default=0)
    retry_at = models.DateTimeField(null=True)
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    last_status = models.PositiveSmallIntegerField(null=True)
    last_error = models.TextField(blank=True, default="")
    delivered_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subscription", "event_seq"], name="delivery_once_per_event"),
            models.CheckConstraint(condition=Q(state__in=["pending", "sent", "failed"]), name="delivery_state_known"),
        ]
        indexes = [
            models.Index(fields=["retry_at"], condition=Q(state="pending"), name="delivery_due"),
            models.Index(fields=["user_id", "id"], name="delivery_user"),
        ]

    def __str__(self) -> str:
        return f"delivery {self.id}: {self.kind}, {self.state}"


class Ticket(models.Model):
    """A one-time key to open a live channel where no header can be sent. Only its digest is kept."""

    digest = models.CharField(max_length=64, primary_key=True)
    user_id = models.UUIDField()
    actor = models.JSONField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"ticket of user {self.user_id} until {self.expires_at:%H:%M:%S}"
