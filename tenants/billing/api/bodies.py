"""Bodies of the operations on use, prices, statements and budgets."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from tenants.billing.idle_capacity import HELD_KINDS
from tenants.billing.ledger.budgets import PERCENT_MAX, BudgetKind
from tenants.billing.ledger.entries import FATES
from tenants.billing.ledger.prices import PRICE_MAX
from tenants.billing.services.budgets import AMOUNT_MAX, THRESHOLDS_MAX
from tenants.billing.usage import GROUPS
from tenants.capacity.api.queue_bodies import PoolRef
from tenants.identity.api.serializers import TenantRef, UserRef
from webapi.fields import QuantityField, UtcTimeField
from webapi.serializers import StrictSerializer

Out = serializers.Serializer[Any]
KINDS = [str(kind) for kind in BudgetKind]


class UsageItem(Out):
    """Usage of a tenant, user, queue, pool, job, day or fate. `gpu_milli_seconds` 3,600,000 is one GPU for an hour."""

    id = serializers.CharField(help_text="Name of the group; a day is `2026-11-20`, a fate its own name.")
    name = serializers.CharField(allow_null=True, help_text="Null for jobs.")
    attempts = serializers.IntegerField()
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_milli_seconds = serializers.IntegerField()
    gpu_measured_milli_seconds = serializers.IntegerField(
        help_text="GPU time with a measurement of use; known a minute after an attempt's end, and 0 if the cluster measures "
        "nothing."
    )
    gpu_busy_milli_seconds = serializers.IntegerField(help_text="Busy part of the measured GPU time.")
    micros = serializers.IntegerField(
        allow_null=True, help_text="Cost in millionths of the currency; null if you may not see it."
    )


class UsageOut(Out):
    """Usage of ended attempts in the window; the largest user of GPUs first, days in order."""

    group_by = serializers.ChoiceField(list(GROUPS))
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    currency = serializers.CharField()
    items = UsageItem(many=True)
    next = serializers.CharField(allow_null=True)


class HeldTenantOut(Out):
    id = serializers.UUIDField()
    name = serializers.CharField(allow_null=True)


class UsageHeldItem(Out):
    """`starting`: held from admission until the first task of an attempt ran. `ending`: from the end of its last task until the
    platform released the capacity. `booked`: unused GPUs of a booking."""

    tenant = HeldTenantOut()
    kind = serializers.ChoiceField(list(HELD_KINDS))
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_milli_seconds = serializers.IntegerField()
    micros = serializers.IntegerField(
        allow_null=True, help_text="Cost that it would have; it is not charged. Null: you may not see costs."
    )


class UsageHeldOut(Out):
    """Held but idle capacity in the window, largest first."""

    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    currency = serializers.CharField()
    items = UsageHeldItem(many=True)


class PriceOut(Out):
    """Price of an hour of a core, a GiB or a GPU of a pool from a time on, until the next price of the same resource."""

    id = serializers.UUIDField()
    pool = PoolRef(allow_null=True, help_text="Null if the pool was deleted.")
    resource = serializers.CharField()
    micros_per_hour = serializers.IntegerField()
    currency = serializers.CharField()
    effective_at = serializers.DateTimeField()
    state = serializers.ChoiceField(["past", "now", "planned"])
    created_at = serializers.DateTimeField()
    created_by = UserRef(allow_null=True)


class PricesOut(Out):
    """Prices that were set together."""

    items = PriceOut(many=True)


def _price(unit: str) -> Any:
    words = f"Millionths of the currency per {unit} hour; 0 is free."
    return QuantityField(required=False, max_value=PRICE_MAX, help_text=words)


@extend_schema_serializer(
    examples=[OpenApiExample("prices", {"pool": "a100", "gpu_hour_micros": 2_500_000, "effective_at": "2026-12-01T00:00:00Z"})]
)
class PriceIn(StrictSerializer):
    """New prices of a pool. Omitted resources keep their price."""

    pool = serializers.CharField(max_length=200, help_text="Id, or a unique name.")
    effective_at = UtcTimeField(required=False, allow_null=True, help_text="At least a minute ahead; default: a minute ahead.")
    gpu_hour_micros = _price("GPU")
    cpu_hour_micros = _price("core")
    memory_gib_hour_micros = _price("GiB")


class EstimateItem(Out):
    """Cost of requested resources in a pool, at present and planned prices."""

    pool = PoolRef()
    micros_per_hour = serializers.IntegerField()
    micros = serializers.IntegerField(help_text="Cost of the requested time, from now on.")


class EstimateOut(Out):
    """Cheapest pool first. A dry run says whether the requested resources fit a pool."""

    currency = serializers.CharField()
    seconds = serializers.IntegerField()
    items = EstimateItem(many=True)


class StatementLine(Out):
    """Usage of a pool by a user from a queue, by month of use and by fate."""

    used_in = serializers.CharField()
    pool = serializers.UUIDField()
    queue = serializers.UUIDField()
    user = serializers.UUIDField()
    fate = serializers.ChoiceField(list(FATES))
    attempts = serializers.IntegerField()
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_milli_seconds = serializers.IntegerField()
    cpu_micros = serializers.IntegerField()
    memory_micros = serializers.IntegerField()
    gpu_micros = serializers.IntegerField()
    micros = serializers.IntegerField()


class StatementTotals(Out):
    """The sums of all lines."""

    attempts = serializers.IntegerField()
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_milli_seconds = serializers.IntegerField()
    cpu_micros = serializers.IntegerField()
    memory_micros = serializers.IntegerField()
    gpu_micros = serializers.IntegerField()
    micros = serializers.IntegerField()
    micros_by_fate = serializers.DictField(child=serializers.IntegerField())
    gpu_milli_seconds_by_fate = serializers.DictField(child=serializers.IntegerField())


class StatementPrice(Out):
    """A price of the lines. `since` counts seconds from 1970."""

    pool = serializers.UUIDField()
    resource = serializers.CharField()
    since = serializers.IntegerField()
    micros_per_hour = serializers.IntegerField()


class StatementDocument(Out):
    """Document that is hashed: sorted keys, no blanks, UTF-8. It names all objects by id, because names change."""

    format = serializers.IntegerField()
    tenant = serializers.UUIDField()
    month = serializers.CharField()
    currency = serializers.CharField()
    lines = StatementLine(many=True)
    totals = StatementTotals()
    prices = StatementPrice(many=True)


class StatementOut(Out):
    """Month of a tenant: the document, its SHA-256, and names for its ids."""

    tenant = TenantRef()
    month = serializers.CharField()
    closed_at = serializers.DateTimeField(allow_null=True, help_text="Null while the month is open.")
    sha256 = serializers.CharField(help_text="Digest of the canonical bytes, which `format=canonical` returns.")
    document = StatementDocument()
    names = serializers.DictField(child=serializers.CharField(), help_text="Names of pools, queues and users, by id.")


class StatementRef(Out):
    """A closed month, in a list."""

    month = serializers.CharField()
    currency = serializers.CharField()
    sha256 = serializers.CharField()
    closed_at = serializers.DateTimeField()


class StatementsOut(Out):
    """Closed months of a tenant, latest first."""

    items = StatementRef(many=True)


class BudgetQueue(Out):
    """The queue of a budget."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class BudgetOut(Out):
    """Budget of a queue and the queues below it per calendar month (UTC), and the part of it that is spent."""

    queue = BudgetQueue()
    tenant = TenantRef(allow_null=True)
    kind = serializers.ChoiceField(KINDS)
    amount = serializers.IntegerField(help_text="Millionths of the currency, or thousandths of a GPU or a node times seconds.")
    warn_at = serializers.ListField(child=serializers.IntegerField(), help_text="Percentages.")
    stops = serializers.BooleanField(help_text="New jobs wait when the budget is spent.")
    month = serializers.CharField()
    spent = serializers.IntegerField(help_text="This month, including running jobs.")
    percent = serializers.IntegerField()
    measured_at = serializers.DateTimeField(allow_null=True)
    currency = serializers.CharField()
    version = serializers.IntegerField()


@extend_schema_serializer(
    examples=[OpenApiExample("budget", {"kind": "money", "amount": 10_000_000_000, "warn_at": [80, 100], "stops": True})]
)
class BudgetIn(StrictSerializer):
    """A monthly budget."""

    kind = serializers.ChoiceField(KINDS)
    amount = QuantityField(
        max_value=AMOUNT_MAX, help_text="Millionths of the currency, or thousandths of a GPU or a node times seconds."
    )
    warn_at = serializers.ListField(
        child=QuantityField(min_value=1, max_value=PERCENT_MAX),
        max_length=THRESHOLDS_MAX,
        required=False,
        help_text="Percentages; default: 80 and 100.",
    )
    stops = serializers.BooleanField(required=False, default=False, help_text="New jobs wait when the budget is spent.")


class CurvePoint(Out):
    """Cost of both ways by the end of a month."""

    month = serializers.IntegerField()
    own_micros = serializers.IntegerField()
    rent_micros = serializers.IntegerField()


class BreakEvenOut(Out):
    """Cost of owned and of rented GPUs. `crossover_month` is null if owning does not become cheaper within the horizon."""

    pool = PoolRef(allow_null=True)
    currency = serializers.CharField()
    measured_since = serializers.DateTimeField(allow_null=True, help_text="Null where the caller gave the use.")
    gpu_milli_hours_per_month = serializers.IntegerField()
    capacity_milli_hours_per_month = serializers.IntegerField()
    use_percent = serializers.IntegerField()
    use_percent_needed = serializers.IntegerField(
        allow_null=True, help_text="Utilisation above which owning is cheaper over a lifetime."
    )
    crossover_month = serializers.IntegerField(allow_null=True)
    stays_below = serializers.BooleanField(help_text="From the crossover to the horizon, even after nodes are bought again.")
    own_micros_per_month = serializers.IntegerField()
    rent_micros_per_month = serializers.IntegerField()
    saved_micros = serializers.IntegerField(help_text="Savings at the horizon; negative where renting is cheaper.")
    assumptions = serializers.DictField(child=serializers.IntegerField())
    curve = CurvePoint(many=True)
