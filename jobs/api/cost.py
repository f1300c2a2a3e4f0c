"""What a job cost so far, and what it costs an hour now."""

from __future__ import annotations

from typing import Any

from django.db.models import Min
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import Attempt, Job
from jobs.selectors.find import fetch_job
from kernel.clock import database_now
from tenants.costs import job_cost
from tenants.ledger_rows import currency
from webapi.views import ApiView, known_query

ATTEMPTS_SHOWN = 100
_AMOUNTS = (
    "gpu_milli_seconds", "cpu_milli_seconds", "memory_byte_seconds", "gpu_measured_milli_seconds", "gpu_busy_milli_seconds",
)  # fmt: skip


class AttemptCostOut(serializers.Serializer[Any]):
    """What one attempt used and cost; `fate` is null while it runs."""

    number = serializers.IntegerField()
    fate = serializers.CharField(allow_null=True)
    gpu_milli_seconds = serializers.IntegerField()
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_measured_milli_seconds = serializers.IntegerField(help_text="GPU time in which somebody looked; 0 while it runs.")
    gpu_busy_milli_seconds = serializers.IntegerField(help_text="What of that the GPUs worked.")
    held_seconds = serializers.IntegerField(
        allow_null=True,
        help_text="How long the platform held the capacity, from admission to release. What is more than its tasks ran is "
        "not charged. Null while it runs, and of attempts from before this was kept.",
    )
    micros = serializers.IntegerField()


class JobCostOut(serializers.Serializer[Any]):
    """Money in millionths of the currency. Of an array: of all of its children."""

    currency = serializers.CharField()
    micros = serializers.IntegerField(help_text="So far, running attempts up to now.")
    micros_per_hour = serializers.IntegerField(help_text="Of what runs now, at the prices of now.")
    gpu_milli_seconds = serializers.IntegerField()
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_measured_milli_seconds = serializers.IntegerField()
    gpu_busy_milli_seconds = serializers.IntegerField()
    attempts = AttemptCostOut(many=True, help_text="The first hundred.")


class JobCostView(ApiView):
    """What a job cost."""

    feature = "billing"

    @extend_schema(operation_id="jobs_cost_get", responses=JobCostOut)
    def get(self, request: Request, job: str) -> Response:
        """What a job cost so far and costs an hour now; for its owner, managers of its tenant, and operators."""
        known_query(request, ())
        found = fetch_job(self.actor, job, "cost.read")
        self.check_feature(found.tenant_id)
        job_ids = [found.id, *Job.objects.filter(parent_id=found.id).order_by("id").values_list("id", flat=True)]
        live = Attempt.objects.filter(job_id=found.id) | Attempt.objects.filter(job__parent_id=found.id)
        running = live.filter(ended_at__isnull=True).order_by().annotate(began=Min("tasks__started_at"))
        since = [(row[0], row[1], row[2]) for row in running.values_list("id", "number", "began") if row[2] is not None]
        cost = job_cost(job_ids, running=since, now=database_now())
        total = cost.total
        return Response(
            {
                "currency": currency(),
                "micros": total.micros,
                "micros_per_hour": cost.micros_per_hour,
                **_amounts(total),
                "attempts": [
                    {
                        "number": one.number,
                        "fate": one.fate or None,
                        **_amounts(one.use),
                        "held_seconds": one.held_seconds,
                        "micros": one.use.micros,
                    }
                    for one in cost.attempts[:ATTEMPTS_SHOWN]
                ],
            }
        )


def _amounts(use: Any) -> dict[str, int]:
    return {name: getattr(use, name) for name in _AMOUNTS}
