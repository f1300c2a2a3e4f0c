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
from tenants.billing.costs import job_cost
from tenants.billing.ledger_rows import currency
from webapi.views import ApiView, known_query

ATTEMPTS_SHOWN = 100
_AMOUNTS = (
    "gpu_milli_seconds", "cpu_milli_seconds", "memory_byte_seconds", "gpu_measured_milli_seconds", "gpu_busy_milli_seconds",
)  # fmt: skip


class AttemptCostOut(serializers.Serializer[Any]):
    """Usage and cost of an attempt; `fate` is null while it runs."""

    number = serializers.IntegerField()
    fate = serializers.CharField(allow_null=True)
    gpu_milli_seconds = serializers.IntegerField()
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_measured_milli_seconds = serializers.IntegerField(help_text="GPU time with a measurement of use; 0 while it runs.")
    gpu_busy_milli_seconds = serializers.IntegerField(help_text="Busy part of the GPU time.")
    held_seconds = serializers.IntegerField(
        allow_null=True,
        help_text="Time from admission to release, in which capacity was held. Only the run time of tasks is charged. Null "
        "while the attempt runs, and for attempts older than this record.",
    )
    micros = serializers.IntegerField()


class JobCostOut(serializers.Serializer[Any]):
    """Cost in millionths of the currency. For an array: of all its children."""

    currency = serializers.CharField()
    micros = serializers.IntegerField(help_text="So far, including running attempts.")
    micros_per_hour = serializers.IntegerField(help_text="Of running attempts, at present prices.")
    gpu_milli_seconds = serializers.IntegerField()
    cpu_milli_seconds = serializers.IntegerField()
    memory_byte_seconds = serializers.IntegerField()
    gpu_measured_milli_seconds = serializers.IntegerField()
    gpu_busy_milli_seconds = serializers.IntegerField()
    attempts = AttemptCostOut(many=True, help_text="The first 100.")


class JobCostView(ApiView):
    """What a job cost."""

    feature = "billing"

    @extend_schema(operation_id="jobs_cost_get", responses=JobCostOut)
    def get(self, request: Request, job: str) -> Response:
        """Get the cost of a job so far and per hour now; for its owner, managers of its tenant, and operators."""
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
                        "number": attempt.number,
                        "fate": attempt.fate or None,
                        **_amounts(attempt.use),
                        "held_seconds": attempt.held_seconds,
                        "micros": attempt.use.micros,
                    }
                    for attempt in cost.attempts[:ATTEMPTS_SHOWN]
                ],
            }
        )


def _amounts(use: Any) -> dict[str, int]:
    return {name: getattr(use, name) for name in _AMOUNTS}
