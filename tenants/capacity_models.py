"""Rows around the queues: edits of limits, caps per person, how long jobs of a queue may run, and bookings."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from kernel.ids import new_id
from kernel.priorities import PRIORITY_MAX
from tenants.lifecycle import BOOKING_STATES, EDIT_STATES, REQUEST_STATES, BookingState, EditState, RequestState


class QuotaEdit(models.Model):
    """A change of limits of one or many queues, made at once, now or at a later time.

    `tenant` owns the lowest queue above all that change; None is root, for operators. `changes` names columns and values as
    they were asked for; `before` what they replaced. `problems` says why an edit was refused when its time came.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.PROTECT, null=True, related_name="quota_edits")
    state = models.CharField(max_length=10, default=EditState.PENDING.value)
    changes = models.JSONField()
    before = models.JSONField(default=list)
    problems = models.JSONField(default=list)
    comment = models.CharField(max_length=1000, blank=True, default="")
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.ForeignKey("tenants.User", models.SET_NULL, null=True, related_name="quota_edits")
    decided_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["effective_from"], condition=Q(state="pending"), name="quota_edit_pending"),
            models.Index(fields=["tenant", "id"], name="quota_edit_tenant"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=EDIT_STATES), name="quota_edit_state_known"),
            models.CheckConstraint(
                condition=Q(state=EditState.PENDING.value, decided_at__isnull=True)
                | (~Q(state=EditState.PENDING.value) & Q(decided_at__isnull=False)),
                name="quota_edit_decided_once",
            ),
        ]

    def __str__(self) -> str:
        return f"quota edit {self.id}, {self.state}"


class LimitChange(models.Model):
    """One limit that was changed, with what held until then: the history of limits, for questions of the past.

    Written by the service that writes limits, in its transaction. A guarantee, weight and so on as `QueueLimit` has them.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    queue = models.ForeignKey("tenants.Queue", models.CASCADE, related_name="limit_changes")
    pool_id = models.UUIDField()
    resource = models.CharField(max_length=20)
    guarantee = models.BigIntegerField()
    deserved = models.BigIntegerField(null=True)
    ceiling = models.BigIntegerField(null=True)
    weight = models.PositiveIntegerField()
    changed_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["changed_at", "id"], name="limit_change_at")]

    def __str__(self) -> str:
        return f"change of {self.resource} in pool {self.pool_id} for queue {self.queue_id} at {self.changed_at}"


class QuotaRequest(models.Model):
    """Limits that a tenant asks for: an edit proposed by somebody who may not make it. `edit` is what an approval made of it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.PROTECT, related_name="quota_requests")
    state = models.CharField(max_length=10, default=RequestState.PENDING.value)
    changes = models.JSONField()
    reason = models.CharField(max_length=1000, blank=True, default="")
    effective_from = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey("tenants.User", models.SET_NULL, null=True, related_name="quota_requests")
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey("tenants.User", models.SET_NULL, null=True, related_name="+")
    answer = models.CharField(max_length=1000, blank=True, default="")
    edit = models.ForeignKey(QuotaEdit, models.PROTECT, null=True, related_name="requests")

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "id"], name="quota_request_tenant"),
            models.Index(fields=["expires_at"], condition=Q(state="pending"), name="quota_request_pending"),
        ]
        constraints = [models.CheckConstraint(condition=Q(state__in=REQUEST_STATES), name="quota_request_state_known")]

    def __str__(self) -> str:
        return f"quota request {self.id}, {self.state}"


class UserCap(models.Model):
    """The most that one user may hold in a tenant and below it. No user: everybody without a row of their own. None: no cap."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.CASCADE, related_name="user_caps")
    user = models.ForeignKey("tenants.User", models.CASCADE, null=True, related_name="caps")
    gpu_millis = models.BigIntegerField(null=True)
    jobs = models.BigIntegerField(null=True)
    containers = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="user_cap_unique"),
            models.UniqueConstraint(fields=["tenant"], condition=Q(user__isnull=True), name="user_cap_one_for_everybody"),
            models.CheckConstraint(
                condition=(Q(gpu_millis__isnull=True) | Q(gpu_millis__gte=0))
                & (Q(jobs__isnull=True) | Q(jobs__gte=0))
                & (Q(containers__isnull=True) | Q(containers__gte=0)),
                name="user_cap_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"cap of user {self.user_id} in tenant {self.tenant_id}"


class PriorityGrant(models.Model):
    """The highest priority that a role may use by itself in a tenant and below it. No row: what the tenant above has."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.CASCADE, related_name="priority_grants")
    role = models.CharField(max_length=10)
    priority = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "role"], name="priority_grant_unique"),
            models.CheckConstraint(condition=Q(role__in=["member", "manager"]), name="priority_grant_role_known"),
            models.CheckConstraint(condition=Q(priority__gte=0, priority__lte=PRIORITY_MAX), name="priority_grant_in_range"),
        ]

    def __str__(self) -> str:
        return f"{self.role} of tenant {self.tenant_id} may use {self.priority}"


class QueueRule(models.Model):
    """What holds for all jobs of a queue and of those below it, whatever the pool: how long each may run, and, of a tenant's
    top queue, how many of them, with how many containers, may hold capacity at a time. None: no limit.

    `default_runtime_seconds` is for planning alone: how long a job is taken to run that states no `max_runtime` and whose kind
    has no history. The nearest queue that has one counts. None: what the queue above says, in the end the installation.
    """

    queue = models.OneToOneField("tenants.Queue", models.CASCADE, primary_key=True, related_name="rule")
    max_runtime_seconds = models.BigIntegerField(null=True)
    default_runtime_seconds = models.BigIntegerField(null=True)
    max_jobs = models.BigIntegerField(null=True)
    max_containers = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(max_runtime_seconds__isnull=True) | Q(max_runtime_seconds__gte=1), name="queue_rule_runtime_positive"
            ),
            models.CheckConstraint(
                condition=Q(default_runtime_seconds__isnull=True) | Q(default_runtime_seconds__gte=1),
                name="queue_rule_default_runtime_positive",
            ),
        ]

    def __str__(self) -> str:
        return f"rule of queue {self.queue_id}"


class Booking(models.Model):
    """GPUs of a pool that a tenant's queue has for itself in a window. `claimed_at`: when its first job came."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.PROTECT, related_name="bookings")
    queue = models.ForeignKey("tenants.Queue", models.PROTECT, related_name="bookings")
    pool_id = models.UUIDField()
    gpu_millis = models.BigIntegerField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    state = models.CharField(max_length=10, default=BookingState.HELD.value)
    comment = models.CharField(max_length=1000, blank=True, default="")
    created_at = models.DateTimeField()
    created_by = models.ForeignKey("tenants.User", models.SET_NULL, null=True, related_name="bookings")
    claimed_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["pool_id", "starts_at"], condition=Q(state="held"), name="booking_held"),
            models.Index(fields=["tenant", "id"], name="booking_tenant"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="booking_ends_after_start"),
            models.CheckConstraint(condition=Q(gpu_millis__gte=1), name="booking_of_something"),
            models.CheckConstraint(condition=Q(state__in=BOOKING_STATES), name="booking_state_known"),
        ]

    def __str__(self) -> str:
        return f"booking {self.id} of pool {self.pool_id}, {self.state}"
