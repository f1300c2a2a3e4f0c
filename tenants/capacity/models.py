"""Rows of capacity: queues, limits, what is held, edits of limits, caps per user, run-time limits, bookings."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from kernel.ids import new_id
from kernel.priorities import PRIORITY_MAX
from kernel.resources import RESOURCE_NAMES
from tenants.capacity.lifecycle import BOOKING_STATES, EDIT_STATES, REQUEST_STATES, BookingState, EditState, RequestState
from tenants.identity.models import Tenant


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
    """Limits that a tenant asks for: an edit proposed by a user who may not make it. `edit` is what an approval made of it."""

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
    """The most that one user may hold in a tenant and below it. No user: all users without a row of their own. None: no cap."""

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


class ReservationKind(models.TextChoices):
    """Why capacity is held: by a running attempt, for a window of time, or for the job that preempted another."""

    ATTEMPT = "attempt"
    BOOKING = "booking"
    CLAIM = "claim"


RESOURCE_CHOICES = [(name, name) for name in RESOURCE_NAMES]


class Queue(models.Model):
    """A boundary of capacity. One tree: `root` belongs to the operators; every tenant has one top queue.

    `path` lists the ids from root to this queue in hexadecimal, each followed by a slash: what is above or below a queue is
    read off without a recursive query, and a rename touches one row.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="queues")
    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="children")
    name = models.CharField(max_length=63)
    path = models.CharField(max_length=1000)
    is_top = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)  # It is kept for what refers to it, and no request finds it.

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["path"], name="queue_path_unique"),
            models.UniqueConstraint(fields=["tenant", "name"], name="queue_name_unique_in_tenant"),
            models.UniqueConstraint(fields=["tenant"], condition=Q(is_top=True), name="queue_one_top_per_tenant"),
            models.UniqueConstraint(fields=["name"], condition=Q(tenant__isnull=True), name="queue_one_root"),
            models.CheckConstraint(
                condition=Q(tenant__isnull=True, parent__isnull=True, name="root", is_top=False)
                | Q(tenant__isnull=False, parent__isnull=False),
                name="queue_only_root_has_no_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"queue {self.name} of tenant {self.tenant_id}"


class QueueLimit(models.Model):
    """What a queue may use of one resource of one pool. No row, or a `ceiling` of None, is no limit.

    `ceiling` decides today; `guarantee` (never lent), `deserved` (lent and reclaimed), `weight` and `caps` are for the
    scheduler's sharing.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    queue = models.ForeignKey(Queue, models.CASCADE, related_name="limits")
    pool_id = models.UUIDField()
    resource = models.CharField(max_length=20, choices=RESOURCE_CHOICES)
    guarantee = models.BigIntegerField(default=0)
    deserved = models.BigIntegerField(null=True)
    ceiling = models.BigIntegerField(null=True)
    weight = models.PositiveIntegerField(default=1)
    caps = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "pool_id", "resource"], name="queue_limit_unique"),
            models.CheckConstraint(condition=Q(resource__in=RESOURCE_NAMES), name="queue_limit_resource_known"),
            models.CheckConstraint(condition=Q(guarantee__gte=0), name="queue_limit_guarantee_not_negative"),
            models.CheckConstraint(
                condition=Q(ceiling__isnull=True) | Q(ceiling__gte=0), name="queue_limit_ceiling_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"limit of {self.resource} in pool {self.pool_id} for queue {self.queue_id}"


class QueueUsage(models.Model):
    """What a queue and all queues below it hold of one pool: the sum of their live reservations.

    The `_max` columns repeat the ceilings of QueueLimit, so that one guarded update compares `used + more <= ceiling`.
    Use may stand above a ceiling that was cut later; then it only falls.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    queue = models.ForeignKey(Queue, models.CASCADE, related_name="usage")
    pool_id = models.UUIDField()
    cpu_millis = models.BigIntegerField(default=0)
    memory_bytes = models.BigIntegerField(default=0)
    gpu_millis = models.BigIntegerField(default=0)
    cpu_millis_max = models.BigIntegerField(null=True)
    memory_bytes_max = models.BigIntegerField(null=True)
    gpu_millis_max = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "pool_id"], name="queue_usage_unique"),
            models.CheckConstraint(
                condition=Q(cpu_millis__gte=0, memory_bytes__gte=0, gpu_millis__gte=0), name="queue_usage_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"usage of pool {self.pool_id} by queue {self.queue_id}"


class Reservation(models.Model):
    """Capacity of one pool held by one attempt, booking or claim until `released_at`. The truth behind QueueUsage."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=10, choices=ReservationKind.choices, default=ReservationKind.ATTEMPT)
    attempt_id = models.UUIDField()
    queue = models.ForeignKey(Queue, models.PROTECT, related_name="reservations")
    pool_id = models.UUIDField()
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="reservations")
    job_id = models.UUIDField()
    cpu_millis = models.BigIntegerField()
    memory_bytes = models.BigIntegerField()
    gpu_millis = models.BigIntegerField()
    created_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["queue", "pool_id"], condition=Q(released_at__isnull=True), name="reservation_live"),
            models.Index(fields=["job_id"], name="reservation_job"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["attempt_id", "pool_id", "kind"], name="reservation_once_per_attempt"),
            models.CheckConstraint(
                condition=Q(cpu_millis__gte=0, memory_bytes__gte=0, gpu_millis__gte=0), name="reservation_not_negative"
            ),
            models.CheckConstraint(condition=Q(kind__in=ReservationKind.values), name="reservation_kind_known"),
        ]

    def __str__(self) -> str:
        return f"reservation of pool {self.pool_id} by attempt {self.attempt_id}"
