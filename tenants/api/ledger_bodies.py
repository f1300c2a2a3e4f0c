"""Bodies of the operations on use, prices, statements and budgets."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from tenants.api.serializers import PoolRef, TenantRef, UserRef
from tenants.idle_capacity import HELD_KINDS
from tenants.ledger.budgets import PERCENT_MAX, BudgetKind
from tenants.ledger.entries import FATES
from tenants.ledger.prices import PRICE_MAX
from tenants.services.budgets import AMOUNT_MAX, THRESHOLDS_MAX
from tenants.usage import GROUPS
from webapi.fields import QuantityField, UtcTimeField
from webapi.serializers import StrictSerializer

Out = serializers.Serializer[Any]
KINDS = [str(kind) for kind in BudgetKind]


class UsageItem(Out):
    """What one tenant, user, queue, pool, job, day or fate used. `gpu_milli_seconds` 3,600,000 is one GPU for an hour."""

    id = serializers.CharField(help_text="Of what is grouped by; a day is `2026-11-20`, a fate its own name.")
    name = serializers.CharField(allow_null=True, help_text="Null for jobs.")
    attempts = serializers.IntegerField()
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_milli_seconds = serializers.IntegerField()
    gpu_measured_milli_seconds = serializers.IntegerField(
        help_text="GPU time of that in which use was measured; it is told a minute after an attempt's end, and 0 where a cluster "
        "measures nothing."
    )
    gpu_busy_milli_seconds = serializers.IntegerField(help_text="GPU time in which the GPUs worked, of what was measured.")
    micros = serializers.IntegerField(
        allow_null=True, help_text="What it cost, in millionths of the currency; null where you may not see it."
    )


class UsageOut(Out):
    """Resource-time of ended attempts within the window; the largest user of GPUs first, days in order."""

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
    platform released the capacity. `booked`: GPUs of a booking that were not used."""

    tenant = HeldTenantOut()
    kind = serializers.ChoiceField(list(HELD_KINDS))
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_milli_seconds = serializers.IntegerField()
    micros = serializers.IntegerField(allow_null=True, help_text="What it would have cost; it is not charged. Null: not for you.")


class UsageHeldOut(Out):
    """What was held idle within the window, the largest first."""

    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    currency = serializers.CharField()
    items = UsageHeldItem(many=True)


class PriceOut(Out):
    """What an hour of one core, GiB or GPU of a pool costs from a moment on, until the next price of the same."""

    id = serializers.UUIDField()
    pool = PoolRef(allow_null=True, help_text="Null where the pool is gone.")
    resource = serializers.CharField()
    micros_per_hour = serializers.IntegerField()
    currency = serializers.CharField()
    effective_at = serializers.DateTimeField()
    state = serializers.ChoiceField(["past", "now", "planned"])
    created_at = serializers.DateTimeField()
    created_by = UserRef(allow_null=True)


class PricesOut(Out):
    """The prices that were set together."""

    items = PriceOut(many=True)


def _price(unit: str) -> Any:
    words = f"Millionths of the currency for an hour of {unit}; 0 is free."
    return QuantityField(required=False, max_value=PRICE_MAX, help_text=words)


@extend_schema_serializer(
    examples=[OpenApiExample("prices", {"pool": "a100", "gpu_hour_micros": 2_500_000, "effective_at": "2026-12-01T00:00:00Z"})]
)
class PriceIn(StrictSerializer):
    """New prices of a pool. What is left out keeps its price."""

    pool = serializers.CharField(max_length=200, help_text="Id, or a name that only one has.")
    effective_at = UtcTimeField(required=False, allow_null=True, help_text="At least a minute ahead; that by default.")
    gpu_hour_micros = _price("one GPU")
    cpu_hour_micros = _price("one core")
    memory_gib_hour_micros = _price("one GiB")


class EstimateItem(Out):
    """What an ask would cost in one pool, at the prices of now and those that are planned."""

    pool = PoolRef()
    micros_per_hour = serializers.IntegerField()
    micros = serializers.IntegerField(help_text="For so many seconds from now on.")


class EstimateOut(Out):
    """The cheapest pool first. Whether the ask fits a pool is for a dry run to say."""

    currency = serializers.CharField()
    seconds = serializers.IntegerField()
    items = EstimateItem(many=True)


class StatementLine(Out):
    """What one user used of one pool from one queue, by the month of the use and by what became of it."""

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
    """A price that the lines were made with. `since` counts seconds from 1970."""

    pool = serializers.UUIDField()
    resource = serializers.CharField()
    since = serializers.IntegerField()
    micros_per_hour = serializers.IntegerField()


class StatementDocument(Out):
    """What is hashed: these keys sorted, no blanks, UTF-8. It names everything by id, for names change."""

    format = serializers.IntegerField()
    tenant = serializers.UUIDField()
    month = serializers.CharField()
    currency = serializers.CharField()
    lines = StatementLine(many=True)
    totals = StatementTotals()
    prices = StatementPrice(many=True)


class StatementOut(Out):
    """A tenant's month: the document, its SHA-256, and names for its ids."""

    tenant = TenantRef()
    month = serializers.CharField()
    closed_at = serializers.DateTimeField(allow_null=True, help_text="Null while the month may still grow.")
    sha256 = serializers.CharField(help_text="Of the canonical bytes, which `format=canonical` gives.")
    document = StatementDocument()
    names = serializers.DictField(child=serializers.CharField(), help_text="Of pools, queues and users, by id.")


class StatementRef(Out):
    """A closed month, in a list."""

    month = serializers.CharField()
    currency = serializers.CharField()
    sha256 = serializers.CharField()
    closed_at = serializers.DateTimeField()


class StatementsOut(Out):
    """The closed months of a tenant, the latest first."""

    items = StatementRef(many=True)


class BudgetQueue(Out):
    """The queue of a budget."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class BudgetOut(Out):
    """A queue's budget for every calendar month (UTC), for it and all below it, and what of it is gone."""

    queue = BudgetQueue()
    tenant = TenantRef(allow_null=True)
    kind = serializers.ChoiceField(KINDS)
    amount = serializers.IntegerField(help_text="Millionths of the currency, or thousandths of a GPU or a node times seconds.")
    warn_at = serializers.ListField(child=serializers.IntegerField(), help_text="Percent.")
    stops = serializers.BooleanField(help_text="New jobs wait when it is spent.")
    month = serializers.CharField()
    spent = serializers.IntegerField(help_text="This month, running work included.")
    percent = serializers.IntegerField()
    measured_at = serializers.DateTimeField(allow_null=True)
    currency = serializers.CharField()
    version = serializers.IntegerField()


@extend_schema_serializer(
    examples=[OpenApiExample("budget", {"kind": "money", "amount": 10_000_000_000, "warn_at": [80, 100], "stops": True})]
)
class BudgetIn(StrictSerializer):
    """A budget for every month."""

    kind = serializers.ChoiceField(KINDS)
    amount = QuantityField(
        max_value=AMOUNT_MAX, help_text="Millionths of the currency, or thousandths of a GPU or a node times seconds."
    )
    warn_at = serializers.ListField(
        child=QuantityField(min_value=1, max_value=PERCENT_MAX),
        max_length=THRESHOLDS_MAX,
        required=False,
        help_text="Percent; 80 and 100 by default.",
    )
    stops = serializers.BooleanField(required=False, default=False, help_text="Whether new jobs wait when it is spent.")


class CurvePoint(Out):
    """What both ways have cost by the end of a month."""

    month = serializers.IntegerField()
    own_micros = serializers.IntegerField()
    rent_micros = serializers.IntegerField()


class BreakEvenOut(Out):
    """Own against rented. `crossover_month` is null where owning never becomes the cheaper way within the horizon."""

    pool = PoolRef(allow_null=True)
    currency = serializers.CharField()
    measured_since = serializers.DateTimeField(allow_null=True, help_text="Null where the use was given.")
    gpu_milli_hours_per_month = serializers.IntegerField()
    capacity_milli_hours_per_month = serializers.IntegerField()
    use_percent = serializers.IntegerField()
    use_percent_needed = serializers.IntegerField(allow_null=True, help_text="From this on, owning is cheaper over a lifetime.")
    crossover_month = serializers.IntegerField(allow_null=True)
    stays_below = serializers.BooleanField(help_text="From the crossover to the horizon, also when machines are bought again.")
    own_micros_per_month = serializers.IntegerField()
    rent_micros_per_month = serializers.IntegerField()
    saved_micros = serializers.IntegerField(help_text="By the horizon; negative where renting is cheaper.")
    assumptions = serializers.DictField(child=serializers.IntegerField())
    curve = CurvePoint(many=True)
