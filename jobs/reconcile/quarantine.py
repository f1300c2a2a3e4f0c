"""Compares what a cluster has with the attempts that the database knows; what is decided about the others is carried out here."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from clusters.engines.interface import Engine, Observations, Stop, StopCause
from clusters.services import quarantine
from jobs.lifecycle.states import AttemptState, JobState
from jobs.models import Attempt, Job
from jobs.reconcile.verdicts import superseded
from jobs.services.ending import end_attempts
from kernel.config import current

log = structlog.get_logger("quarantine")

_known: dict[uuid.UUID, frozenset[uuid.UUID]] = {}  # By cluster: attempts that were there and had a row. Rows are not deleted.


def compare(
    engine: Engine, cluster_id: uuid.UUID, observations: Observations, live: Collection[uuid.UUID], *, now: datetime
) -> None:
    """Find what the database does not know, and carry out what operators decided about it. Costs nothing where all is known.

    `live` are the attempts of the cluster that were alive before it was looked at.
    """
    seen = {item.attempt_id for item in observations.items}
    remembered = _known.get(cluster_id, frozenset()) & seen
    unsure = seen - remembered - set(live)
    known = remembered | set(Attempt.objects.filter(id__in=unsure).values_list("id", flat=True)) if unsure else remembered
    _known[cluster_id] = frozenset(known)
    if seen <= known | set(live) and not quarantine.is_quarantined(cluster_id):
        return
    quarantine.record_look(cluster_id, observations, known | set(live), now=now)
    _end_superseded(cluster_id, seen, now, is_complete=observations.complete)
    _follow_users_stops(cluster_id, now)
    _carry_out(engine, cluster_id)


def not_withheld(cluster_id: uuid.UUID, due: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """Those of the due attempts that may be handed to the cluster: none while it may run a newer one of the same job."""
    holds = quarantine.current_holds()
    if holds.since_at is None:
        return due
    if any(cluster == cluster_id for cluster, _ in holds.unlooked):
        return due.none()
    older = Q(created_at__lt=holds.since_at, number__lt=holds.unknown_number)
    return due.exclude(job_id__in=list(holds.jobs)).exclude(older)


def _end_superseded(cluster_id: uuid.UUID, seen: Collection[uuid.UUID], now: datetime, *, is_complete: bool) -> None:
    """End attempts that were not launched when the backup was taken, and of whose jobs a later one is there now."""
    later = quarantine.open_numbers(cluster_id)
    if not later or not is_complete:
        return
    waiting = Attempt.objects.filter(job_id__in=later, state=AttemptState.ADMITTED).select_related("job")
    over = [item for item in waiting if item.number < later[item.job_id] and item.id not in seen and item.job.desired == "run"]
    if over:
        with transaction.atomic():
            end_attempts(superseded(over, now=now), actor="system:observer", now=now)


def _follow_users_stops(cluster_id: uuid.UUID, now: datetime) -> None:
    """A user stopped a job that waited for its attempt in quarantine: the stop is meant for that attempt, too."""
    undecided = quarantine.open_jobs(cluster_id)
    if not undecided:
        return
    stopped = set(
        Job.objects.filter(id__in=set(undecided.values()), state=JobState.STOPPED, desired="stop").values_list("id", flat=True)
    )
    attempts = [attempt_id for attempt_id, job_id in undecided.items() if job_id in stopped]
    if attempts:
        quarantine.ask_stops(attempts, now=now)
        log.info("quarantined_stopped_with_job", attempts=[str(attempt_id) for attempt_id in attempts])


def _carry_out(engine: Engine, cluster_id: uuid.UUID) -> None:
    running, ended = quarantine.waiting_stops(cluster_id)
    if running:
        engine.stop([Stop(attempt_id, current().grace_seconds, StopCause.PLATFORM) for attempt_id in running])
    if ended:
        engine.forget(ended)
