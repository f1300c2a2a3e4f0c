"""Bodies and answers of quota edits, caps per person and time limits."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from kernel.resources import RESOURCE_NAMES
from tenants.api.serializers import Out, PoolRef, TenantRef, UserRef
from tenants.lifecycle import BOOKING_STATES, EDIT_STATES
from tenants.quota.caps import RUNTIME_MAX_SECONDS
from tenants.quota.limits import AMOUNT_MAX, WEIGHT_MAX
from tenants.services.edits import CHANGES_MAX
from webapi.fields import QuantityField, UtcTimeField
from webapi.serializers import StrictSerializer

COMMENT_LENGTH = 1_000


@extend_schema_serializer(
    examples=[OpenApiExample("lend 8 GPUs", {"queue": "nightly", "pool": "a100", "resource": "gpu_millis", "deserved": 8000})]
)
class ChangeIn(StrictSerializer):
    """New values of one limit. What is left out stays; null lifts a deserved amount or a ceiling."""

    queue = serializers.CharField(max_length=100, help_text="Id, or a name that only one queue has that you see.")
    pool = serializers.CharField(max_length=255)
    resource = serializers.ChoiceField(RESOURCE_NAMES)
    guarantee = QuantityField(required=False, max_value=AMOUNT_MAX, help_text="Never lent to others.")
    deserved = QuantityField(
        required=False,
        allow_null=True,
        max_value=AMOUNT_MAX,
        help_text="Lent while idle, taken back on demand. Null: the guarantee.",
    )
    ceiling = QuantityField(required=False, allow_null=True, max_value=AMOUNT_MAX, help_text="Never passed. Null: no limit.")
    weight = QuantityField(required=False, max_value=WEIGHT_MAX, help_text="Divides what nobody is promised; 0 comes last.")


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
    """Changes of many limits, made together or not at all."""

    changes = serializers.ListField(child=ChangeIn(), min_length=1, max_length=CHANGES_MAX)
    tenant = serializers.CharField(
        max_length=100, required=False, allow_null=True, default=None, help_text="Whose queues the names mean; ids need none."
    )
    dry_run = serializers.BooleanField(required=False, default=False, help_text="Only say what would become of it.")
    effective_from = UtcTimeField(required=False, allow_null=True, default=None)
    comment = serializers.CharField(max_length=COMMENT_LENGTH, required=False, allow_blank=True, default="")
    versions = serializers.DictField(
        child=QuantityField(), required=False, default=dict, help_text="Queue ids with the versions that they must still have."
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
    """One change of an edit: the new values, and all that they replaced."""

    queue = QueueName(allow_null=True)
    pool = PoolRef(allow_null=True)
    resource = serializers.CharField()
    values = serializers.DictField(child=serializers.IntegerField(allow_null=True))
    before = LimitColumns(allow_null=True)


class EditProblemOut(Out):
    """What an edit breaks."""

    path = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(required=False)


class OverOut(Out):
    """A queue that holds more than an edit leaves it. Nothing is stopped for a ceiling; above the deserved amount others may
    take back what is theirs."""

    queue = QueueName()
    pool = PoolRef(allow_null=True)
    resource = serializers.CharField()
    column = serializers.ChoiceField(["deserved", "ceiling"])
    used = serializers.IntegerField()
    limit = serializers.IntegerField()
    was_over = serializers.BooleanField(help_text="Whether that was so before the edit.")


class ConsequenceOut(Out):
    """What would become of one job."""

    what = serializers.ChoiceField(["starts", "waits", "is_evicted"])
    job_id = serializers.UUIDField()
    name = serializers.CharField()
    why = serializers.CharField()


class ForecastOut(Out):
    """What an edit comes to. `jobs` is null where no scheduler is there to say, or the edit would be refused."""

    problems = EditProblemOut(many=True)
    over = OverOut(many=True)
    jobs = ConsequenceOut(many=True, allow_null=True)


class EditOut(Out):
    """An edit of limits. A dry run has no id and state `dry_run`."""

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
    forecast = ForecastOut(allow_null=True, help_text="For a dry run only.")
    plan = serializers.CharField(
        required=False, help_text="For a dry run only, the plan's name: send it as `?plan=` to have just this done."
    )


@extend_schema_serializer(examples=[OpenApiExample("everybody", {"user": None, "gpu_millis": 8000, "jobs": 20})])
class CapIn(StrictSerializer):
    """What one person may hold at a time in the tenant and below; `user` null is everybody without a line of their own."""

    user = serializers.CharField(max_length=100, required=False, allow_null=True, default=None, help_text="Name or id.")
    gpu_millis = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    jobs = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    containers = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)


class CapOut(Out):
    """One line of caps; null is no cap."""

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
    """How long jobs of a queue and of those below it may run, and of a tenant's top queue how many; null is no limit."""

    max_runtime_seconds = QuantityField(required=False, allow_null=True, min_value=1, max_value=RUNTIME_MAX_SECONDS)
    default_runtime_seconds = QuantityField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=RUNTIME_MAX_SECONDS,
        help_text="How long a job is planned to run that states no `max_runtime` and whose kind has no history. It ends no job. "
        "null: what the queue above says, in the end `BERTH_SCHEDULER_ASSUMED_RUNTIME_SECONDS`.",
    )
    max_jobs = QuantityField(
        required=False, allow_null=True, max_value=AMOUNT_MAX, help_text="That hold capacity at a time, of all its users."
    )
    max_containers = QuantityField(required=False, allow_null=True, max_value=AMOUNT_MAX, help_text="Of these jobs together.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError("Name at least one limit.", code="required")
        return attrs


class RulesOut(Out):
    """The queue's own limits, and the times that hold here by it and all above."""

    max_runtime_seconds = serializers.IntegerField(allow_null=True)
    default_runtime_seconds = serializers.IntegerField(allow_null=True)
    max_jobs = serializers.IntegerField(allow_null=True)
    max_containers = serializers.IntegerField(allow_null=True)
    effective_max_runtime_seconds = serializers.IntegerField(allow_null=True, help_text="The shortest on the way up.")
    effective_default_runtime_seconds = serializers.IntegerField(
        allow_null=True, help_text="The nearest on the way up; null: what the installation assumes."
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
    """Whole GPUs of a pool for a window."""

    pool = serializers.CharField(max_length=255)
    gpu_millis = QuantityField(min_value=1000, max_value=AMOUNT_MAX, help_text="1000 for each GPU.")
    starts_at = UtcTimeField()
    ends_at = UtcTimeField()
    tenant = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)
    queue = serializers.CharField(
        max_length=100,
        required=False,
        allow_null=True,
        default=None,
        help_text="Whose jobs it is for; the tenant's own by default.",
    )
    comment = serializers.CharField(max_length=COMMENT_LENGTH, required=False, allow_blank=True, default="")


class BookingOut(Out):
    """A booking. `claimed_at` is when the first job of its queue was seen in its window."""

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
