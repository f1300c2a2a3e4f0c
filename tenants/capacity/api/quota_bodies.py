"""Bodies and answers of quota edits, caps per person and time limits."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from kernel.resources import RESOURCE_NAMES
from kernel.words import Text
from tenants.capacity.api.queue_bodies import PoolRef
from tenants.capacity.lifecycle import BOOKING_STATES, EDIT_STATES
from tenants.capacity.quota.caps import RUNTIME_MAX_SECONDS
from tenants.capacity.quota.limits import AMOUNT_MAX, WEIGHT_MAX
from tenants.capacity.services.edits import CHANGES_MAX
from tenants.identity.api.serializers import Out, TenantRef, UserRef
from webapi.fields import QuantityField, UtcTimeField
from webapi.refusals import refusal
from webapi.serializers import StrictSerializer

COMMENT_LENGTH = 1_000


@extend_schema_serializer(
    examples=[OpenApiExample("lend 8 GPUs", {"queue": "nightly", "pool": "a100", "resource": "gpu_millis", "deserved": 8000})]
)
class ChangeIn(StrictSerializer):
    """New values of a limit. Omitted columns are unchanged; null lifts a deserved amount or a ceiling."""

    queue = serializers.CharField(max_length=100, help_text="Id, or a name that is unique among the queues that you can see.")
    pool = serializers.CharField(max_length=255)
    resource = serializers.ChoiceField(RESOURCE_NAMES)
    guarantee = QuantityField(required=False, max_value=AMOUNT_MAX, help_text="Guarantee, never lent.")
    deserved = QuantityField(
        required=False,
        allow_null=True,
        max_value=AMOUNT_MAX,
        help_text="Deserved share, lent while idle and reclaimed on demand. Null: the guarantee.",
    )
    ceiling = QuantityField(
        required=False, allow_null=True, max_value=AMOUNT_MAX, help_text="Ceiling, never exceeded. Null: no limit."
    )
    weight = QuantityField(
        required=False, max_value=WEIGHT_MAX, help_text="Weight in sharing capacity that no queue deserves; 0 comes last."
    )


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "try it first",
            {
                "changes": [{"queue": "nightly", "pool": "a100", "resource": "gpu_millis", "guarantee": 4000, "ceiling": None}],
                "dry_run": True,
            },
        )
    ]
)
class EditIn(StrictSerializer):
    """Changes of many limits, applied all or none."""

    changes = serializers.ListField(child=ChangeIn(), min_length=1, max_length=CHANGES_MAX)
    tenant = serializers.CharField(
        max_length=100,
        required=False,
        allow_null=True,
        default=None,
        help_text="Tenant whose queues the names refer to; not needed for ids.",
    )
    dry_run = serializers.BooleanField(required=False, default=False, help_text="Dry run: show the result, change nothing.")
    effective_from = UtcTimeField(required=False, allow_null=True, default=None)
    comment = serializers.CharField(max_length=COMMENT_LENGTH, required=False, allow_blank=True, default="")
    versions = serializers.DictField(
        child=QuantityField(), required=False, default=dict, help_text="Queue ids with the versions that are expected."
    )


class LimitColumns(Out):
    """All columns of one limit."""

    guarantee = serializers.IntegerField()
    deserved = serializers.IntegerField(allow_null=True)
    ceiling = serializers.IntegerField(allow_null=True)
    weight = serializers.IntegerField()


class QueueName(Out):
    """A queue by id and name."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class EditChangeOut(Out):
    """A change of an edit: the new values, and the values that they replaced."""

    queue = QueueName(allow_null=True)
    pool = PoolRef(allow_null=True)
    resource = serializers.CharField()
    values = serializers.DictField(child=serializers.IntegerField(allow_null=True))
    before = LimitColumns(allow_null=True)


class EditProblemOut(Out):
    """A constraint that an edit violates."""

    path = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(required=False)


class OverOut(Out):
    """A queue that holds more than an edit leaves it. A lower ceiling stops no job; capacity above the deserved share may be
    reclaimed by other queues."""

    queue = QueueName()
    pool = PoolRef(allow_null=True)
    resource = serializers.CharField()
    column = serializers.ChoiceField(["deserved", "ceiling"])
    used = serializers.IntegerField()
    limit = serializers.IntegerField()
    was_over = serializers.BooleanField(help_text="The queue was over the limit before the edit, too.")


class ConsequenceOut(Out):
    """Predicted outcome of a job."""

    what = serializers.ChoiceField(["starts", "waits", "is_evicted"])
    job_id = serializers.UUIDField()
    name = serializers.CharField()
    why = serializers.CharField()


class ForecastOut(Out):
    """Effect of an edit. `jobs` is null if no scheduler is running, or if the edit would be refused."""

    problems = EditProblemOut(many=True)
    over = OverOut(many=True)
    jobs = ConsequenceOut(many=True, allow_null=True)


class EditOut(Out):
    """An edit of limits. A dry run has no id and the state `dry_run`."""

    id = serializers.UUIDField(allow_null=True)
    state = serializers.ChoiceField([*EDIT_STATES, "dry_run"])
    tenant = TenantRef(allow_null=True)
    changes = EditChangeOut(many=True)
    problems = EditProblemOut(many=True)
    comment = serializers.CharField()
    effective_from = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField(allow_null=True)
    created_by = UserRef(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    forecast = ForecastOut(allow_null=True, help_text="Dry runs only.")
    plan = serializers.CharField(
        required=False, help_text="Dry runs only: name of the plan; send it as `?plan=` to apply exactly this plan."
    )


@extend_schema_serializer(examples=[OpenApiExample("all users", {"user": None, "gpu_millis": 8000, "jobs": 20})])
class CapIn(StrictSerializer):
    """Cap of what a user may hold at a time in the tenant and below; `user` null: all users without a cap of their own."""

    user = serializers.CharField(max_length=100, required=False, allow_null=True, default=None, help_text="Name or id.")
    gpu_millis = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    jobs = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    containers = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)


class CapOut(Out):
    """A set of caps; null is no cap."""

    user = UserRef(allow_null=True)
    gpu_millis = serializers.IntegerField(allow_null=True)
    jobs = serializers.IntegerField(allow_null=True)
    containers = serializers.IntegerField(allow_null=True)


class CapsOut(Out):
    """All caps of a tenant."""

    items = CapOut(many=True)


@extend_schema_serializer(
    examples=[
        OpenApiExample("a day at most", {"max_runtime_seconds": 86_400}),
        OpenApiExample("planned with two hours", {"default_runtime_seconds": 7_200}),
    ]
)
class RulesIn(StrictSerializer):
    """Run time limit of a queue and the queues below it, and number limits of a tenant's top queue; null is no limit."""

    max_runtime_seconds = QuantityField(required=False, allow_null=True, min_value=1, max_value=RUNTIME_MAX_SECONDS)
    default_runtime_seconds = QuantityField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=RUNTIME_MAX_SECONDS,
        help_text="Planned run time of jobs without `max_runtime` and without history; it ends no job. Null: inherited from "
        "the queue above, finally `BERTH_SCHEDULER_ASSUMED_RUNTIME_SECONDS`.",
    )
    max_jobs = QuantityField(
        required=False, allow_null=True, max_value=AMOUNT_MAX, help_text="Jobs of all users that may hold capacity at a time."
    )
    max_containers = QuantityField(
        required=False, allow_null=True, max_value=AMOUNT_MAX, help_text="Containers of these jobs together."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise refusal(Text("Name at least one limit.", "请至少给出一项额度。"), code="required")
        return attrs


class RulesOut(Out):
    """Own limits of the queue, and the run time limits that result from it and the queues above."""

    max_runtime_seconds = serializers.IntegerField(allow_null=True)
    default_runtime_seconds = serializers.IntegerField(allow_null=True)
    max_jobs = serializers.IntegerField(allow_null=True)
    max_containers = serializers.IntegerField(allow_null=True)
    effective_max_runtime_seconds = serializers.IntegerField(
        allow_null=True, help_text="The shortest limit of the queue and the queues above."
    )
    effective_default_runtime_seconds = serializers.IntegerField(
        allow_null=True, help_text="The nearest setting of the queue and the queues above; null: the default of the installation."
    )
    version = serializers.IntegerField()


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "a night on 8 GPUs",
            {
                "pool": "a100",
                "gpu_millis": 8000,
                "starts_at": "2026-12-01T20:00:00Z",
                "ends_at": "2026-12-02T06:00:00Z",
                "tenant": "vision",
            },
        )
    ]
)
class BookingIn(StrictSerializer):
    """Booking of whole GPUs of a pool for a time window."""

    pool = serializers.CharField(max_length=255)
    gpu_millis = QuantityField(min_value=1000, max_value=AMOUNT_MAX, help_text="1000 per GPU.")
    starts_at = UtcTimeField()
    ends_at = UtcTimeField()
    tenant = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)
    queue = serializers.CharField(
        max_length=100,
        required=False,
        allow_null=True,
        default=None,
        help_text="Queue whose jobs may use the booking; default: the tenant's top queue.",
    )
    comment = serializers.CharField(max_length=COMMENT_LENGTH, required=False, allow_blank=True, default="")


class BookingOut(Out):
    """A booking. `claimed_at` is the time at which the first job of its queue was seen in its window."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(BOOKING_STATES)
    tenant = TenantRef()
    queue = QueueName()
    pool = PoolRef(allow_null=True)
    gpu_millis = serializers.IntegerField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    comment = serializers.CharField()
    created_at = serializers.DateTimeField()
    created_by = UserRef(allow_null=True)
    claimed_at = serializers.DateTimeField(allow_null=True)
    released_at = serializers.DateTimeField(allow_null=True)
