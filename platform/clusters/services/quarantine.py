"""What clusters run and the database does not know: after a restore, everything started since the backup was taken.

Such an attempt is a user's running work, and the platform does not know better. It is written down and shown, and neither
stopped nor forgotten until an operator says so. While it is undecided, its job does not start again, for at most one attempt of
a job may run; before a cluster was first compared with the restored database, none of the restored jobs start at all.

In normal operation there is nothing of this kind: an attempt's row is committed before its cluster hears of it, and rows are
not deleted. If such an attempt is found all the same - a database was put back by other means - quarantine begins by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import QuerySet

from activity import hints
from activity.services import NewEvent, record_audit, record_events
from clusters.engines.interface import AttemptLabels, AttemptObservation, Observations, TaskState
from clusters.models import Cluster, Node, Quarantined
from kernel.actor import Actor
from kernel.errors import Conflict, NotFound
from kernel.limits import NAME_LENGTH
from kernel.resources import Resources
from kernel.wait_codes import WaitCode
from kernel.words import Text
from reconciling import bulk
from webapi.access import fetch, visible

log = structlog.get_logger("quarantine")

QuarantinedRow = Quarantined  # As the apps above read it.
SEEN_SECONDS = 60.0  # How old "last seen" may be while nothing else changes.
LIVE = (TaskState.PENDING, TaskState.RUNNING, TaskState.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Holds:
    """What may not start now. All empty in normal operation.

    `jobs` maps a job to the attempt of it that is undecided. `unlooked` are clusters not yet compared, by name, and
    `unknown_number` the highest number of an attempt whose job is not known: both hold jobs submitted before `since_at` only.
    """

    jobs: Mapping[uuid.UUID, Mapping[str, Any]] = field(default_factory=dict)
    unlooked: tuple[tuple[uuid.UUID, str], ...] = ()
    unknown_number: int = 0
    since_at: datetime | None = None
    undecided: int = 0
    allocated: Mapping[tuple[uuid.UUID, str], Resources] = field(default_factory=dict)  # By pool and node: what these hold.

    def why(self, job_id: uuid.UUID, submitted_at: datetime, next_number: int) -> tuple[WaitCode, Mapping[str, Any]] | None:
        """Why a job may not have this attempt now, as code and amounts of a reason; None when it may."""
        if job_id in self.jobs:
            return WaitCode.QUARANTINED, self.jobs[job_id]
        if self.since_at is None or submitted_at >= self.since_at:
            return None
        if self.unlooked:
            return WaitCode.RESTORED, {"cluster": self.unlooked[0][1]}
        if next_number <= self.unknown_number:
            return WaitCode.QUARANTINED_UNKNOWN, {"number": self.unknown_number}
        return None


NOTHING_HELD = Holds()


def begin_quarantine(now: datetime) -> None:
    """The database was put back to an earlier time: let nothing of it start before each cluster was asked what runs."""
    Cluster.objects.update(quarantine_since_at=now, quarantine_looked_at=None)
    clusters = Cluster.objects.values_list("id", "name")
    record_events(
        [
            NewEvent("cluster.quarantine_began", None, "cluster", cluster_id, now, data={"name": name})
            for cluster_id, name in clusters
        ]
    )


def is_quarantined(cluster_id: uuid.UUID) -> bool:
    """Whether the cluster has to be looked at even where nothing of ours runs on it."""
    return Cluster.objects.filter(pk=cluster_id, quarantine_since_at__isnull=False).exists()


def current_holds() -> Holds:
    """What may not start now. One query in normal operation."""
    clusters = list(Cluster.objects.filter(quarantine_since_at__isnull=False).order_by("name"))
    if not clusters:
        return NOTHING_HELD
    names = {cluster.pk: cluster.name for cluster in clusters}
    rows = list(Quarantined.objects.filter(resolution="").order_by("attempt_id"))
    unknown = [row.number or 1 for row in rows if row.job_id is None]
    return Holds(
        jobs={
            row.job_id: {"attempt": str(row.attempt_id), "number": row.number, "cluster": names.get(row.cluster_id, "")}
            for row in rows
            if row.job_id is not None
        },
        unlooked=tuple((cluster.pk, cluster.name) for cluster in clusters if cluster.quarantine_looked_at is None),
        unknown_number=max(unknown, default=0),
        since_at=max(cluster.quarantine_since_at for cluster in clusters if cluster.quarantine_since_at is not None),
        undecided=len(rows),
        allocated=_allocated([row for row in rows if row.runs]),
    )


def _allocated(rows: Sequence[Quarantined]) -> dict[tuple[uuid.UUID, str], Resources]:
    pools = {
        (cluster_id, name): pool_id
        for cluster_id, name, pool_id in Node.objects.filter(cluster_id__in={row.cluster_id for row in rows}).values_list(
            "cluster_id", "name", "pool_id"
        )
    }
    held: dict[tuple[uuid.UUID, str], Resources] = {}
    for row in rows:
        for task in row.tasks:
            pool_id = pools.get((row.cluster_id, task["node"]))
            if pool_id is not None:
                key = (pool_id, task["node"])
                held[key] = held.get(key, Resources()) + Resources(task["cpu_millis"], task["memory_bytes"], task["gpu_millis"])
    return held


# --- What a look at a cluster shows ----------------------------------------------------------------------------------


def record_look(cluster_id: uuid.UUID, observations: Observations, known: Collection[uuid.UUID], *, now: datetime) -> None:
    """Compare what a cluster has with what the database knows, and write the difference down. One transaction.

    `known` are the observed attempts that have a row. Reading them must have come after the observation.
    """
    unknown = [item for item in observations.items if item.attempt_id not in known]
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(pk=cluster_id)
        rows = {row.attempt_id: row for row in Quarantined.objects.filter(cluster_id=cluster_id)}
        if unknown and cluster.quarantine_since_at is None:
            cluster.quarantine_since_at = now
            cluster.save(update_fields=["quarantine_since_at"])
            log.error("quarantine_began_by_itself", cluster=cluster.name, attempts=len(unknown))
        found = [item for item in unknown if item.attempt_id not in rows]
        Quarantined.objects.bulk_create([_row(cluster_id, item, now) for item in found], batch_size=bulk.BATCH_ROWS)
        for item in unknown:
            if item.attempt_id in rows:
                _see_again(rows[item.attempt_id], item, now)
        gone = _resolve_absent(rows, observations, {item.attempt_id for item in unknown}, now)
        if observations.complete:
            _note_look(cluster, observations, now)
        if found:
            record_events([_event("cluster.quarantined", cluster, now, {"attempts": len(found)})])
            log.warning("quarantined", cluster=cluster.name, attempts=len(found))
        if found or gone:
            hints.wake("capacity")


def _row(cluster_id: uuid.UUID, item: AttemptObservation, now: datetime) -> Quarantined:
    labels = item.labels or AttemptLabels()
    started = [task.started_at for task in item.tasks if task.started_at is not None]
    return Quarantined(
        attempt_id=item.attempt_id,
        cluster_id=cluster_id,
        job_id=labels.job_id,
        number=labels.number,
        name=labels.name[:NAME_LENGTH],
        tenant_key=labels.isolation_key[:NAME_LENGTH],
        tasks=_tasks(item, labels),
        runs=_runs(item),
        started_at=min(started, default=None),
        first_seen_at=now,
        last_seen_at=now,
    )


def _tasks(item: AttemptObservation, labels: AttemptLabels) -> list[dict[str, Any]]:
    return [
        {
            "role": task.name.role,
            "index": task.name.index,
            "node": task.node,
            "state": task.state.value,
            **labels.amounts.get(task.name, Resources()).as_dict(),
        }
        for task in item.tasks
    ]


def _runs(item: AttemptObservation) -> bool:
    """Whether anything of it may still run; what the engine cannot read may."""
    return not item.tasks or any(task.state in LIVE for task in item.tasks)


def _see_again(row: Quarantined, item: AttemptObservation, now: datetime) -> None:
    runs, tasks = _runs(item), _tasks(item, item.labels or AttemptLabels())
    is_news = (row.runs, row.tasks) != (runs, tasks) or row.resolution in ("gone", "stopped")
    if is_news or now - row.last_seen_at > timedelta(seconds=SEEN_SECONDS):
        row.runs, row.tasks, row.last_seen_at = runs, tasks, now
        if row.resolution in ("gone", "stopped"):  # It was not gone after all.
            row.resolution, row.resolved_at = "", None
        row.save(update_fields=["runs", "tasks", "last_seen_at", "resolution", "resolved_at"])


def _resolve_absent(
    rows: Mapping[uuid.UUID, Quarantined], observations: Observations, there: Collection[uuid.UUID], now: datetime
) -> int:
    """What a complete observation no longer shows is over."""
    if not observations.complete:
        return 0
    over = [row for row in rows.values() if row.resolution == "" and row.attempt_id not in there]
    for row in over:
        row.resolution = "stopped" if row.stop_asked_at is not None else "gone"
        row.resolved_at, row.runs = now, False
        row.save(update_fields=["resolution", "resolved_at", "runs"])
    return len(over)


def _note_look(cluster: Cluster, observations: Observations, now: datetime) -> None:
    """The first complete look lets restored jobs start; quarantine ends when nothing is undecided any more."""
    if cluster.quarantine_since_at is None:
        return
    if cluster.quarantine_looked_at is None:
        cluster.quarantine_looked_at = now
        hints.wake("capacity")
    if not Quarantined.objects.filter(cluster_id=cluster.pk, resolution="").exists():
        cluster.quarantine_since_at = cluster.quarantine_looked_at = None
        record_events([_event("cluster.quarantine_ended", cluster, now, {})])
        log.info("quarantine_ended", cluster=cluster.name)
    cluster.save(update_fields=["quarantine_since_at", "quarantine_looked_at"])


def _event(kind: str, cluster: Cluster, now: datetime, data: Mapping[str, Any]) -> NewEvent:
    return NewEvent(kind, None, "cluster", cluster.pk, now, data={"name": cluster.name, **data})


# --- What operators decide -------------------------------------------------------------------------------------------


def stop_quarantined(*, actor: Actor, attempt_id: uuid.UUID, now: datetime) -> Quarantined:
    """Have the cluster end the attempt and forget it, at the next look. Asked twice it is the same."""
    with transaction.atomic():
        row = open_row(attempt_id)
        if row.stop_asked_at is None:
            row.stop_asked_at = now
            row.save(update_fields=["stop_asked_at"])
            record_decision("quarantine.stop", row, actor=actor, now=now)
        hints.wake(f"poll.{row.cluster_id}")
    return row


def trust_cluster(*, actor: Actor, name: str, now: datetime) -> None:
    """Take an operator's word that nothing unknown runs on a cluster that does not answer: restored jobs may start."""
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().filter(name=name).first()
        if cluster is None:
            raise NotFound(
                Text(f"There is no cluster {name[:NAME_LENGTH]!r}.", f"没有集群 {name[:NAME_LENGTH]!r}。"),
                hint=Text("`berth clusters` lists them.", "`berth clusters` 可列出集群。"),
            )
        if cluster.quarantine_since_at is None or cluster.quarantine_looked_at is not None:
            raise Conflict(
                Text(f"Cluster {name} holds nothing back.", f"集群 {name} 没有暂停任何操作。"),
                hint=Text("`manage.py quarantine` shows what does.", "`manage.py quarantine` 显示哪个集群有。"),
            )
        cluster.quarantine_looked_at = now
        cluster.save(update_fields=["quarantine_looked_at"])
        record_audit(
            actor=actor, verb="cluster.trust", tenant_id=None, target_kind="cluster", target_id=cluster.pk,
            target_name=cluster.name, at=now,
        )  # fmt: skip
        hints.wake("capacity")


def list_open() -> list[Quarantined]:
    """All that is undecided and still there, oldest first, with clusters."""
    return list(Quarantined.objects.filter(resolution="").select_related("cluster").order_by("attempt_id"))


def visible_rows(actor: Actor) -> QuerySet[Quarantined]:
    """The undecided rows that exist for the actor, with their clusters."""
    return visible(actor, Quarantined).filter(resolution="").select_related("cluster")


def fetch_row(actor: Actor, attempt_id: str, verb: str) -> Quarantined:
    """One row for one verb. NotFound for a caller who is no operator, and for what was never in quarantine."""
    return fetch(actor, Quarantined, attempt_id, verb, key="attempt_id")


def open_row(attempt_id: uuid.UUID) -> Quarantined:
    """The undecided row, locked. NotFound without one, Conflict when it is decided."""
    row = Quarantined.objects.select_for_update(of=("self",)).select_related("cluster").filter(pk=attempt_id).first()
    if row is None:
        raise NotFound(
            Text(f"No attempt {attempt_id} is in quarantine.", f"隔离区中没有尝试 {attempt_id}。"),
            hint=Text("`manage.py quarantine` lists what is.", "`manage.py quarantine` 列出隔离区中的尝试。"),
        )
    if row.resolution:
        raise Conflict(
            Text(
                f"Attempt {attempt_id} is no longer in quarantine: it is {row.resolution}.",
                f"尝试 {attempt_id} 已不在隔离区：状态为 {row.resolution}。",
            )
        )
    return row


def mark_adopted(row: Quarantined, *, now: datetime) -> None:
    """The attempt has a row of its own now. In the caller's transaction, which holds the row from `open_row`."""
    row.resolution, row.resolved_at = "adopted", now
    row.save(update_fields=["resolution", "resolved_at"])


def record_decision(verb: str, row: Quarantined, *, actor: Actor, now: datetime, tenant_id: uuid.UUID | None = None) -> None:
    """One audit row for what was decided about one attempt."""
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=tenant_id,
        target_kind="attempt",
        target_id=row.attempt_id,
        target_name=row.name,
        after={"job": str(row.job_id) if row.job_id else None, "number": row.number, "cluster": row.cluster.name},
        at=now,
    )


def waiting_stops(cluster_id: uuid.UUID) -> tuple[list[uuid.UUID], list[uuid.UUID]]:
    """Attempts on the cluster that are to be stopped, and those that ended and are to be forgotten."""
    rows = Quarantined.objects.filter(cluster_id=cluster_id, resolution="", stop_asked_at__isnull=False)
    found = list(rows.order_by("attempt_id").values_list("attempt_id", "runs"))
    return [attempt_id for attempt_id, runs in found if runs], [attempt_id for attempt_id, runs in found if not runs]


def ask_stops(attempt_ids: Collection[uuid.UUID], *, now: datetime) -> int:
    """Stop attempts whose job a user stopped while it was held: what was asked for holds for all of the job."""
    rows = Quarantined.objects.filter(attempt_id__in=attempt_ids, resolution="", stop_asked_at__isnull=True)
    return rows.update(stop_asked_at=now)


def open_numbers(cluster_id: uuid.UUID) -> dict[uuid.UUID, int]:
    """Job -> number of the attempt of it that is undecided on a cluster."""
    rows = Quarantined.objects.filter(cluster_id=cluster_id, resolution="", job_id__isnull=False, number__isnull=False)
    return {job_id: number for job_id, number in rows.order_by("number").values_list("job_id", "number") if job_id and number}


def open_jobs(cluster_id: uuid.UUID) -> dict[uuid.UUID, uuid.UUID]:
    """Attempt -> job of what is undecided on a cluster and knows its job."""
    rows = Quarantined.objects.filter(cluster_id=cluster_id, resolution="", job_id__isnull=False, stop_asked_at__isnull=True)
    return {attempt_id: job_id for attempt_id, job_id in rows.values_list("attempt_id", "job_id") if job_id is not None}
