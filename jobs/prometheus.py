"""What `/metrics` says of jobs: how many, how long they wait, what runs late. Labels are bounded; no job id is ever one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Count, Min, Q
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from clusters.selectors import awaited_clusters, pools_and_nodes
from clusters.telemetry import bounded
from clusters.telemetry.prometheus import TENANTS_MAX
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JOB_LIFECYCLE, AttemptState
from jobs.models import Attempt, Job
from jobs.reconcile.missed_wakeups import missed_wakeups
from reconciling import fencing
from tenants.billing.usage import gpu_seconds_by_tenant
from tenants.selectors import queue_tree, tenant_facts

BUCKETS_SECONDS = (1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400)
WAIT_WINDOW = timedelta(hours=24)  # Jobs that started within it; a histogram over all history would cost all history.


def job_metrics(now: datetime) -> Iterable[Metric]:
    """Families of one round: ten queries, whatever the number of jobs."""
    yield _jobs()
    yield _waits(now)
    yield _runs(now)
    yield _lag(now)
    yield _tasks()
    yield _stale()
    yield _missed_wakeups()
    yield from _tenants(now)


def _jobs() -> Metric:
    """Live jobs by tenant and state; ended ones by state only, because they grow without end."""
    family = GaugeMetricFamily("berth_jobs", "Jobs by state; ended ones of all tenants together.", labels=["tenant", "state"])
    by_state: dict[str, dict[str, float]] = defaultdict(dict)
    live = Job.objects.filter(state__in=JOB_LIFECYCLE.live_states, array_size__isnull=True)
    for slug, state, number in live.order_by().values_list("tenant__slug", "state").annotate(number=Count("id")):
        by_state[state][slug] = number
    for state in JOB_LIFECYCLE.live_states:
        for slug, number in bounded(by_state.get(state, {})).items():
            family.add_metric([slug, state], number)
    return family


def _waits(now: datetime) -> Metric:
    window = now - WAIT_WINDOW  # A job that started in it is alive, or ended in it: found by an index either way.
    lives_or_ended = Q(state__in=JOB_LIFECYCLE.live_states) | Q(ended_at__gte=window)
    started = Job.objects.filter(lives_or_ended, started_at__gte=window).values_list("submitted_at", "started_at")[:100_000]
    waits = [(began - submitted).total_seconds() for submitted, began in started if began is not None]
    family = HistogramMetricFamily("berth_job_queue_wait_seconds", "From submission to start, of jobs started in the last day.")
    family.add_metric([], _buckets(waits), sum(waits))
    return family


def _runs(now: datetime) -> Metric:
    ended = Job.objects.filter(ended_at__gte=now - WAIT_WINDOW, started_at__isnull=False, array_size__isnull=True)
    spans = ended.values_list("started_at", "ended_at")[:100_000]
    runs = [(over - began).total_seconds() for began, over in spans if began is not None and over is not None]
    family = HistogramMetricFamily("berth_job_run_seconds", "From start to end, of jobs ended in the last day.")
    family.add_metric([], _buckets(runs), sum(runs))
    return family


def _buckets(values: list[float]) -> list[tuple[str, float]]:
    edges = [(str(float(edge)), float(sum(value <= edge for value in values))) for edge in BUCKETS_SECONDS]
    return [*edges, ("+Inf", float(len(values)))]


def _lag(now: datetime) -> Metric:
    """How long the oldest due attempt has been waiting for a reconciler. What clusters that are lost or removed still have is
    waited for by none."""
    oldest = (
        Attempt.objects.filter(forgotten=False, due_at__lte=now, cluster_id__in=awaited_clusters())
        .exclude(state__in=[AttemptState.STARTING, AttemptState.RUNNING])
        .aggregate(oldest=Min("due_at"))["oldest"]
    )
    lag = (now - oldest).total_seconds() if oldest is not None else 0.0
    return GaugeMetricFamily("berth_reconcile_lag_seconds", "Age of the oldest due work.", value=lag)


def _tasks() -> Metric:
    family = GaugeMetricFamily("berth_task_queue_depth", "Attempts due for a reconciler, by what is due.", labels=["work"])
    rows = dict(
        Attempt.objects.filter(state__in=ATTEMPT_LIFECYCLE.live_states)
        .order_by()
        .values_list("state")
        .annotate(number=Count("id"))
    )
    for state, work in ((AttemptState.ADMITTED, "launch"), (AttemptState.STOPPING, "stop")):
        family.add_metric([work], rows.get(state, 0))
    family.add_metric(["finish"], Attempt.objects.filter(state=AttemptState.ENDED, forgotten=False).count())
    return family


def _stale() -> Metric:
    family = CounterMetricFamily(
        "berth_stale_results", "Results dropped because their lease had passed to somebody else.", labels=["work"]
    )
    for work, rows in fencing.dropped().items():
        family.add_metric([work], rows)
    return family


def _missed_wakeups() -> Metric:
    return CounterMetricFamily(
        "berth_scheduler_missed_wakeups",
        "Jobs that started only because the scheduler's state was built anew; each is a fault of its wake-ups.",
        value=missed_wakeups(),
    )


def _tenants(now: datetime) -> Iterable[Metric]:
    used = gpu_seconds_by_tenant()
    slugs = {tenant_id: facts.slug for tenant_id, facts in tenant_facts({tenant_id for tenant_id, _ in used}).items()}
    counter = CounterMetricFamily("berth_gpu_seconds", "GPU time in the ledger.", labels=["tenant", "gpu_type"])
    for (tenant_id, model), seconds in sorted(used.items(), key=str):
        counter.add_metric([slugs.get(tenant_id, "other"), model or "none"], seconds)
    yield counter
    yield _quotas()


def _quotas() -> Metric:
    """Use of every ceiling of the tenants' top queues; theirs are the ones that operators set."""
    family = GaugeMetricFamily("berth_quota_used_ratio", "Use of a ceiling, 0 to 1.", labels=["tenant", "pool", "resource"])
    pools = {pool.id: f"{pool.cluster_name}/{pool.name}" for pool in pools_and_nodes()[0]}
    queues = [queue for queue in queue_tree() if queue.is_top and queue.tenant_id is not None and queue.ceilings]
    slugs = tenant_facts({queue.tenant_id for queue in queues if queue.tenant_id is not None})
    for queue in queues[:TENANTS_MAX]:
        assert queue.tenant_id is not None
        for pool_id, ceilings in queue.ceilings.items():
            for resource, ceiling in ceilings.items():
                if ceiling and pool_id in pools:
                    used = getattr(queue.used(pool_id), resource)
                    family.add_metric([slugs[queue.tenant_id].slug, pools[pool_id], resource], used / ceiling)
    return family
