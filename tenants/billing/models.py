"""Rows of billing: the ledger, prices, what is not added up yet, days, budgets, and statements of months that are over."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from kernel.ids import new_id
from kernel.resources import RESOURCE_NAMES
from tenants.billing.ledger.budgets import BudgetKind
from tenants.capacity.models import Queue
from tenants.identity.models import Tenant, User

RESOURCE_CHOICES = [(name, name) for name in RESOURCE_NAMES]


class Price(models.Model):
    """What an hour of one core, GiB or GPU of a pool costs from a moment on, in millionths. A trigger refuses changes.

    It holds until the next row of the same pool and resource. Rows that hold, or held, are never taken away.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool_id = models.UUIDField()
    resource = models.CharField(max_length=20, choices=RESOURCE_CHOICES)
    micros_per_hour = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    effective_at = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.ForeignKey("tenants.User", models.PROTECT, null=True, related_name="prices")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pool_id", "resource", "effective_at"], name="price_once_at_a_moment"),
            models.CheckConstraint(condition=Q(micros_per_hour__gte=0), name="price_not_negative"),
            models.CheckConstraint(condition=Q(resource__in=RESOURCE_NAMES), name="price_resource_known"),
        ]

    def __str__(self) -> str:
        return f"price of {self.resource} in pool {self.pool_id} from {self.effective_at:%Y-%m-%dT%H:%MZ}"


class LedgerPending(models.Model):
    """An entry of the ledger that no day has counted yet. Written by a trigger, removed by the process that counts it."""

    entry_id = models.UUIDField(primary_key=True)

    def __str__(self) -> str:
        return f"ledger entry {self.entry_id}, not counted yet"


class LedgerMeasure(models.Model):
    """What was measured of the GPUs of an entry on one day (counted since 1970), in thousandths of a GPU times seconds.

    Written once, with the commit that counts the entry into days: series are thinned and forgotten, these stay.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    entry = models.ForeignKey("tenants.LedgerEntry", models.PROTECT, related_name="measures", db_index=False)
    day = models.IntegerField()
    measured_milli_seconds = models.BigIntegerField()
    busy_milli_seconds = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["entry", "day"], name="measured_once_a_day")]

    def __str__(self) -> str:
        return f"what the GPUs of ledger entry {self.entry_id} did on day {self.day}"


class UsageDay(models.Model):
    """What was used on one day (UTC), by tenant, queue, user, pool and fate: sums of the ledger, kept so that none adds it up.

    `day` counts from 1970. `billed` is the month, 202611, in whose statement the use stands: that of the attempts' end.
    Memory is kept as whole MiB times seconds and the rest in bytes times seconds: a large pool's day leaves 64 bits.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    day = models.IntegerField()
    billed = models.IntegerField()
    tenant_id = models.UUIDField()
    queue_id = models.UUIDField()
    user_id = models.UUIDField()
    pool_id = models.UUIDField()
    fate = models.CharField(max_length=10)
    attempts = models.BigIntegerField(default=0)
    cpu_milli_seconds = models.BigIntegerField(default=0)
    memory_mib_seconds = models.BigIntegerField(default=0)
    memory_rest_seconds = models.BigIntegerField(default=0)
    gpu_milli_seconds = models.BigIntegerField(default=0)
    cpu_micros = models.BigIntegerField(default=0)
    memory_micros = models.BigIntegerField(default=0)
    gpu_micros = models.BigIntegerField(default=0)
    gpu_measured_milli_seconds = models.BigIntegerField(default=0, db_default=0)
    gpu_busy_milli_seconds = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        indexes = [
            models.Index(fields=["day"], name="usage_day"),
            models.Index(fields=["billed", "tenant_id"], name="usage_day_billed"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "day", "billed", "queue_id", "user_id", "pool_id", "fate"], name="usage_day_unique"
            )
        ]

    def __str__(self) -> str:
        return f"use of pool {self.pool_id} by tenant {self.tenant_id} on day {self.day}"


class Budget(models.Model):
    """What a queue and all below it may spend in a calendar month (UTC), and how much of it was gone when last measured.

    `amount` and `spent` are millionths of the currency, or thousandths of a GPU or a node times seconds. `level` is the highest
    threshold of `spent_month` that was told.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    queue = models.OneToOneField("tenants.Queue", models.CASCADE, related_name="budget")
    kind = models.CharField(max_length=10, choices=[(str(kind), str(kind)) for kind in BudgetKind])
    amount = models.BigIntegerField()
    warn_at = models.JSONField(default=list)
    stops = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    spent = models.BigIntegerField(default=0)
    spent_month = models.IntegerField(default=0)
    spent_at = models.DateTimeField(null=True)
    level = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gte=0), name="budget_not_negative"),
            models.CheckConstraint(condition=Q(kind__in=[str(kind) for kind in BudgetKind]), name="budget_kind_known"),
        ]

    def __str__(self) -> str:
        return f"budget of queue {self.queue_id}"


class Statement(models.Model):
    """A tenant's month that is over: the document, letter for letter, and its SHA-256. A trigger refuses changes."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.PROTECT, related_name="statements")
    month = models.IntegerField()
    currency = models.CharField(max_length=3)
    document = models.TextField()
    sha256 = models.CharField(max_length=64)
    closed_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "month"], name="statement_once_a_month")]

    def __str__(self) -> str:
        return f"statement of tenant {self.tenant_id} for {self.month}"


class DemandHour(models.Model):
    """What jobs that waited in a queue would have held of a pool in one hour (counted since 1970), times seconds.

    Counted by the scheduler while it runs, for it alone knows who really waits for room; never changed once the hour is over.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    hour = models.IntegerField()
    queue_id = models.UUIDField()
    pool_id = models.UUIDField()
    cpu_milli_seconds = models.BigIntegerField(default=0)
    gpu_milli_seconds = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hour", "queue_id", "pool_id"], name="demand_once_an_hour")]

    def __str__(self) -> str:
        return f"demand of queue {self.queue_id} for pool {self.pool_id} in hour {self.hour}"


class ShareStatement(models.Model):
    """A tenant's week that is over: which share it deserved and got, letter for letter, signed. A trigger refuses changes."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", models.PROTECT, related_name="share_statements")
    week = models.IntegerField()
    document = models.TextField()
    sha256 = models.CharField(max_length=64)
    signature = models.CharField(max_length=128)
    public_key = models.CharField(max_length=64)
    closed_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "week"], name="share_statement_once_a_week")]

    def __str__(self) -> str:
        return f"share statement of tenant {self.tenant_id} for week {self.week}"


class LedgerEntry(models.Model):
    """Resource-time that one attempt used of one pool. Append-only: a trigger refuses changes.

    What it cost follows from it and the prices, which never change for a time that is over (`billing/ledger`). `fate` is None
    where the release before wrote it; then the outcome says as much as is known. `prices` was never filled.

    From `started_at` to `ended_at` its tasks ran, by their engine; `held_seconds` is how long the platform kept the capacity for
    it, from admission to release, and what of that is more than `seconds` is charged to no tenant. None where an earlier release
    wrote it: then it was charged from launch until the end was noticed.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    attempt_id = models.UUIDField()
    number = models.PositiveIntegerField()
    job_id = models.UUIDField()
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="ledger")
    queue = models.ForeignKey(Queue, models.PROTECT, related_name="ledger")
    user = models.ForeignKey(User, models.PROTECT, related_name="ledger")
    pool_id = models.UUIDField()
    cluster_id = models.UUIDField()
    cpu_millis = models.BigIntegerField()
    memory_bytes = models.BigIntegerField()
    gpu_millis = models.BigIntegerField()
    gpu_model = models.CharField(max_length=100, blank=True, default="")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    seconds = models.BigIntegerField()
    outcome = models.CharField(max_length=40)
    prices = models.JSONField(default=dict)
    held_seconds = models.BigIntegerField(null=True)
    fate = models.CharField(max_length=10, null=True)  # noqa: DJ001 - SQLite adds nothing else without a copy.

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "ended_at"], name="ledger_tenant"),
            models.Index(fields=["ended_at"], name="ledger_ended"),
            models.Index(fields=["job_id"], name="ledger_job"),
            models.Index(fields=["ended_at"], condition=Q(seconds__gt=86_400), name="ledger_long"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["attempt_id", "pool_id"], name="ledger_once_per_attempt"),
            models.CheckConstraint(
                condition=Q(cpu_millis__gte=0, memory_bytes__gte=0, gpu_millis__gte=0, seconds__gte=0),
                name="ledger_not_negative",
            ),
            models.CheckConstraint(condition=Q(ended_at__gte=F("started_at")), name="ledger_ends_after_start"),
        ]

    def __str__(self) -> str:
        return f"ledger entry of attempt {self.attempt_id} in pool {self.pool_id}"
