"""Rows around the ledger: prices, what is not added up yet, days that were, budgets, and statements of months that are over."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from kernel.ids import new_id
from kernel.resources import RESOURCE_NAMES
from tenants.ledger.budgets import BudgetKind

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
    """An entry of the ledger that no day has counted yet. Written by a trigger, taken away by whoever counts it."""

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
    """What was used on one day (UTC), by tenant, queue, user, pool and fate: sums of the ledger, kept so that nobody adds it up.

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
    """A tenant's week that is over: which share it was promised and got, letter for letter, signed. A trigger refuses changes."""

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
