"""What an engine was seen to do, written down and drawn conclusions from, for a batch of attempts.

Called by polling and by watches alike, as often as anyone likes: only differences are written. The order per attempt is always
the same - tasks, then the attempt, then the job - so that the sequence of states does not depend on how often a process looked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from activity.services import record_events
from clusters.engines.interface import (
    ExitReason,
    ImageKind,
    TaskName,
    TaskObservation,
)
from clusters.engines.interface import TaskState as Seen
from clusters.services import Held, note_contents
from jobs.lifecycle.completion import Decision, decide
from jobs.lifecycle.exits import signal_of
from jobs.lifecycle.policies import PolicyEvent, TaskEnd
from jobs.lifecycle.start_waits import next_wait, starts_too_late, wait_text
from jobs.lifecycle.states import TASK_LIFECYCLE, AttemptState, JobState, TaskState
from jobs.loading.specs import load_spec, preload_specs
from jobs.models import Attempt, Job, Task
from jobs.reconcile import poisoned_jobs
from jobs.reconcile.deadlines import NEARLY_OVER, is_nearly_over, notices, stop_grace, stops_at
from jobs.reconcile.stored_exits import exit_document, exit_value, storable_wait
from jobs.reconcile.verdicts import START_TIMEOUT, conclude
from jobs.reconcile.watched import LIVE, Watched
from jobs.selectors.ran import last_looks
from jobs.services.arrays import derive_parents
from jobs.services.dependencies import settle
from jobs.services.ending import end_attempts
from jobs.services.stop import stop_attempts
from jobs.services.transition import ATTEMPT, JOB, TASK, Change, apply
from kernel.config import current
from kernel.crashpoints import crashpoint
from reconciling import bulk
from storage.services.mounts import volumes_meant


def record_observations(watched: Sequence[Watched], *, log_tails: Mapping[uuid.UUID, str], now: datetime) -> None:
    """Write all differences in one transaction: tasks, starts, stops that follow, ends.

    `log_tails` gives, for attempts with failed tasks, the end of what the first of them printed, for naming the failure.
    """
    preload_specs({item.job.spec_id for item in watched if not poisoned_jobs.is_marked(item.attempt)})
    with transaction.atomic():
        _note_launches(watched, now)
        _record_tasks(watched, now)
        _record_conditions(watched, now)
        _record_starts(watched, now)
        _stop_what_is_decided(watched, now)
        _stop_what_is_overdue(watched, now)
        _record_ends(watched, log_tails, now)
        crashpoint("jobs.poll.before_commit")


def _note_launches(watched: Sequence[Watched], now: datetime) -> None:
    """An attempt that is there was launched, even if the worker died before saying so, and a stop came between.

    From then on it is charged, and what it printed is wanted.
    """
    rows = []
    for item in watched:
        if item.seen is not None and item.attempt.launched_at is None:
            starts = [task.started_at for task in item.seen.tasks if task.started_at is not None]
            item.attempt.launched_at = max(item.attempt.created_at, min([now, *starts]))
            rows.append({"id": item.attempt.id, "launched_at": item.attempt.launched_at})
    bulk.update(Attempt, rows)


# --- Tasks -----------------------------------------------------------------------------------------------------------


def _record_tasks(watched: Sequence[Watched], now: datetime) -> None:
    """Move tasks along; the rows in `watched` follow what was really written."""
    by_id: dict[uuid.UUID, Task] = {}
    running, over = [], []
    facts: list[dict[str, Any]] = []
    looks = _looks(watched)
    begun: dict[uuid.UUID, datetime] = {}
    for item in watched:
        for task, seen in _pairs(item):
            if TASK_LIFECYCLE.is_terminal(task.state):
                continue
            by_id[task.id] = task
            if task.state == TaskState.PENDING and seen.state in (Seen.RUNNING, Seen.ENDED):
                started_at = _between(item.attempt.created_at, seen.started_at, now)
                running.append(_task_change(task, TaskState.RUNNING, {"started_at": started_at}))
                begun[task.id] = started_at
                facts.append(_task_facts(task, seen, None))
            elif task.state == TaskState.PENDING:
                waiting = next_wait(task.waiting, storable_wait(seen.waiting), now)
                if waiting != task.waiting:
                    facts.append(_task_facts(task, seen, waiting))
            if seen.state in (Seen.ENDED, Seen.GONE):
                target = task_end(seen, stopping=item.attempt.state == AttemptState.STOPPING)
                began_at = begun.get(task.id) or task.started_at or item.attempt.created_at
                told_at = seen.ended_at if seen.ended_at is not None else _last_seen(item.attempt, looks)
                also = {"ended_at": _between(began_at, told_at, now), "exit": exit_document(seen)}
                over.append((task, target, also))
    for change in apply(TASK, running, actor="system:observer", at=now):
        by_id[change.id].state = change.to_state
        by_id[change.id].started_at = change.also["started_at"]
    bulk.update(Task, facts)
    for row in facts:
        by_id[row["id"]].waiting = row["waiting"]
    ended = [_task_change(task, target, also) for task, target, also in over]
    for change in apply(TASK, ended, actor="system:observer", at=now):
        by_id[change.id].state = change.to_state
        by_id[change.id].exit = change.also["exit"]
        by_id[change.id].ended_at = change.also["ended_at"]


def _looks(watched: Sequence[Watched]) -> dict[uuid.UUID, datetime]:
    """When the clusters of attempts that vanished were last looked at; no query where none did."""
    vanished = {
        item.attempt.cluster_id
        for item in watched
        for _, seen in _pairs(item)
        if seen.state in (Seen.ENDED, Seen.GONE) and seen.ended_at is None
    }
    return last_looks(vanished) if vanished else {}


def _last_seen(attempt: Attempt, looks: Mapping[uuid.UUID, datetime]) -> datetime | None:
    """When an attempt was last seen to run: at the last look at its cluster, or before its machine was out of reach."""
    looked_at = looks.get(attempt.cluster_id)
    lost_at = attempt.condition_since_at if attempt.condition == "lost_contact" else None
    return min((at for at in (looked_at, lost_at) if at is not None), default=None)


def _between(earliest: datetime, told: datetime | None, now: datetime) -> datetime:
    """When something happened that an engine's host tells of, whose clock may have been set: not before what it followed, and
    not in the future."""
    return now if told is None else max(min(told, now), min(earliest, now))


def _pairs(item: Watched) -> list[tuple[Task, TaskObservation]]:
    """Every stored task with what was seen; a task of an attempt that is not there any more is gone."""
    if item.seen is None:
        return [(task, _gone(task)) for task in item.tasks.values()]
    return [
        (item.tasks[(seen.name.role, seen.name.index)], seen)
        for seen in item.seen.tasks
        if (seen.name.role, seen.name.index) in item.tasks
    ]


def _gone(task: Task) -> TaskObservation:
    return TaskObservation(TaskName(task.role, task.index), Seen.GONE)


def _task_change(task: Task, target: TaskState, also: Mapping[str, Any]) -> Change:
    reason = str((also.get("exit") or {}).get("reason") or "")
    if reason == ExitReason.NONE:  # It ended by itself, which needs no reason.
        reason = ""
    return Change(task.id, task.state, target, reason=reason, also=also)


def _task_facts(task: Task, seen: TaskObservation, waiting: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "id": task.id,
        "node_name": seen.node or task.node_name,
        "address": seen.address,
        "ports": dict(seen.ports),
        "gpus": list(seen.gpus),
        "gpus_simulated": seen.gpus_simulated,
        "waiting": waiting,
    }


def task_end(seen: TaskObservation, *, stopping: bool) -> TaskState:
    """How a task that does not run any more ended. Gone without a word while we were stopping it is what we wanted."""
    end = seen.exit
    if end is not None and end.code == 0 and end.signal is None and end.reason in (ExitReason.NONE, ExitReason.STOPPED):
        return TaskState.SUCCEEDED
    if end is not None and end.reason == ExitReason.STOPPED:
        return TaskState.STOPPED
    if end is None and stopping:
        return TaskState.STOPPED
    return TaskState.FAILED


# --- Attempts and jobs -----------------------------------------------------------------------------------------------


def _record_conditions(watched: Sequence[Watched], now: datetime) -> None:
    """Lost contact is a condition with a time, never a state; it goes as it came. So is time that is nearly over."""
    conditions = [(item, _condition(item, now)) for item in watched]
    late = [item for item, condition in conditions if condition == NEARLY_OVER != item.attempt.condition]
    if late:
        record_events(notices(late, now))
    changed = [
        (item, {"condition": condition, "condition_since_at": now if condition else None})
        for item, condition in conditions
        if item.attempt.condition != condition
    ]
    bulk.update(Attempt, [{"id": item.attempt.id, **columns} for item, columns in changed])
    bulk.update(Job, [{"id": item.job.id, **columns} for item, columns in changed])


def _condition(item: Watched, now: datetime) -> str:
    """An attempt of which the engine knows nothing but that it is there is one it has lost contact with."""
    if item.seen is not None and (not item.seen.tasks or any(task.state == Seen.UNREACHABLE for task in item.seen.tasks)):
        return "lost_contact"
    if poisoned_jobs.is_marked(item.attempt):
        return poisoned_jobs.MARK
    return NEARLY_OVER if is_nearly_over(item, now) else ""


def _record_starts(watched: Sequence[Watched], now: datetime) -> None:
    """STARTING -> RUNNING once every task has started; the job follows, and jobs that waited for its start."""
    starting = [item for item in watched if item.attempt.state == AttemptState.STARTING and item.all_started]
    by_id = {item.attempt.id: item for item in starting}
    done = apply(
        ATTEMPT,
        [
            Change(
                item.attempt.id,
                AttemptState.STARTING,
                AttemptState.RUNNING,
                reason="started",
                also={
                    "started_at": now,
                    "deadline_at": now + timedelta(seconds=item.job.max_runtime_seconds)
                    if item.job.max_runtime_seconds is not None
                    else None,
                },
            )
            for item in starting
        ],
        actor="system:observer",
        at=now,
    )
    started = [by_id[change.id] for change in done]
    for item in started:
        item.attempt.state = AttemptState.RUNNING
        item.attempt.started_at = now
    moved = apply(
        JOB,
        [
            Change(
                item.job.id,
                JobState.STARTING,
                JobState.RUNNING,
                reason="started",
                detail={"attempt": item.attempt.number},
                also={"started_at": item.job.started_at or now},
            )
            for item in started
        ],
        actor="system:observer",
        at=now,
    )
    ids = [change.id for change in moved]
    for item in started:
        item.job.state = JobState.RUNNING
    settle(ids, now=now)
    derive_parents(ids, now=now)
    _note_contents(started)


def _note_contents(started: Sequence[Watched]) -> None:
    """Machines have what work that runs there has brought: its image, and the data that it mounts."""
    mounted = {
        (item.job.tenant_id, mount.volume)
        for item in started
        if not poisoned_jobs.is_marked(item.attempt)
        for mount in load_spec(item.job.spec_id).mounts
    }
    volumes = volumes_meant(mounted) if mounted else {}
    by_cluster: dict[uuid.UUID, list[Held]] = {}
    for item in started:
        images = frozenset({item.job.image_digest} - {""}) if item.job.image_kind != ImageKind.HOST else frozenset[str]()
        mounts = () if poisoned_jobs.is_marked(item.attempt) else load_spec(item.job.spec_id).mounts
        found = (volumes.get((item.job.tenant_id, mount.volume)) for mount in mounts)
        data = frozenset(str(volume.id) for volume in found if volume is not None)
        if images or data:
            nodes = sorted({task.node_name for task in item.tasks.values() if task.node_name})
            by_cluster.setdefault(item.attempt.cluster_id, []).extend(Held(node, images, data) for node in nodes)
    for cluster_id, held in sorted(by_cluster.items()):
        note_contents(cluster_id, held)


def _stop_what_is_decided(watched: Sequence[Watched], now: datetime) -> None:
    """The completion policy has decided while tasks still run: stop them, and remember the verdict."""
    rows, verdicts = [], {}
    for item in watched:
        if item.attempt.state == AttemptState.STOPPING or item.all_over or poisoned_jobs.is_marked(item.attempt):
            continue
        decision = completion_of(item)
        if decision.is_decided:
            rows.append((item.job.id, item.job.state, item.attempt.id))
            verdicts[item.attempt.id] = {"succeeded": decision.succeeded, "because": decision.because}
            if decision.action is not None:
                verdicts[item.attempt.id]["action"] = str(decision.action)
    if rows:
        stop_attempts(
            rows, cause="completion", reason="completing", grace_seconds=None, actor="system:observer", now=now, verdicts=verdicts
        )
        _reload(watched, {attempt_id for _, _, attempt_id in rows})


def _stop_what_is_overdue(watched: Sequence[Watched], now: datetime) -> None:
    """max_runtime is over, or nearly so where the job asked for its signal earlier; or the attempt did not start in time."""
    overdue: list[tuple[str, str, list[Watched]]] = [
        ("deadline", "max_runtime", [item for item in watched if _past_deadline(item, now)]),
        ("platform", START_TIMEOUT, [item for item in watched if _starts_too_long(item, now)]),
    ]
    for cause, reason, items in overdue:
        rows = [(item.job.id, item.job.state, item.attempt.id) for item in items if not item.all_over]
        if rows:
            late = {item.attempt.id: {START_TIMEOUT: _not_started(item)} for item in items if reason == START_TIMEOUT}
            warned = items if cause == "deadline" else []
            graces = {item.attempt.id: seconds for item in warned if (seconds := stop_grace(item, now)) is not None}
            stop_attempts(
                rows,
                cause=cause,
                reason=reason,
                grace_seconds=None,
                graces=graces,
                actor="system:observer",
                now=now,
                verdicts=late,
            )
            _reload(watched, {attempt_id for _, _, attempt_id in rows})


def _not_started(item: Watched) -> str:
    """Which tasks did not start, for the readers of its end."""
    pending = [task for task in item.tasks.values() if task.state == TaskState.PENDING]
    named = {f"{task.role}-{task.index}": wait_text(task.waiting) for task in pending}
    told = [f"{name} ({named[name]})" if named[name] else name for name in sorted(named)[:10]]
    return f"Not running in time: {', '.join(told)}" + (f" and {len(named) - 10} more" if len(named) > 10 else "")


def _starts_too_long(item: Watched, now: datetime) -> bool:
    attempt, config = item.attempt, current()
    if attempt.state != AttemptState.STARTING or attempt.launched_at is None:
        return False
    seconds, pull_seconds = config.start_timeout_seconds, config.image_pull_seconds
    return any(
        starts_too_late(attempt.launched_at, task.waiting, now, seconds=seconds, pull_seconds=pull_seconds)
        for task in item.tasks.values()
        if task.state == TaskState.PENDING
    )


def _past_deadline(item: Watched, now: datetime) -> bool:
    at = stops_at(item) if item.attempt.state == AttemptState.RUNNING else None
    return at is not None and at <= now


def _reload(watched: Sequence[Watched], attempt_ids: set[uuid.UUID]) -> None:
    fresh = {attempt.id: attempt for attempt in Attempt.objects.filter(id__in=attempt_ids).select_related("job")}
    for item in watched:
        if item.attempt.id in fresh:
            item.attempt = fresh[item.attempt.id]
            item.job = item.attempt.job


def _record_ends(watched: Sequence[Watched], log_tails: Mapping[uuid.UUID, str], now: datetime) -> None:
    over = [item for item in watched if item.all_over and item.attempt.state in LIVE]
    decisions = {item.attempt.id: completion_of(item) for item in over if not poisoned_jobs.is_marked(item.attempt)}
    end_attempts(conclude(over, decisions, log_tails, now=now), actor="system:observer", now=now)


def conclude_gone(attempt_ids: Sequence[uuid.UUID], *, now: datetime) -> None:
    """End stopping attempts that the engine never had and never will have. Those that it had are reported by observations, with
    their exits, and are left to them.
    """
    attempts = Attempt.objects.filter(id__in=attempt_ids, state=AttemptState.STOPPING, launched_at__isnull=True)
    watched = []
    for attempt in attempts.select_related("job"):
        tasks = {(task.role, task.index): task for task in Task.objects.filter(attempt_id=attempt.id)}
        watched.append(Watched(attempt, attempt.job, tasks, None))
    if watched:
        record_observations(watched, log_tails={}, now=now)


def completion_of(item: Watched) -> Decision:
    """What the job's policies and its completion policy say to the tasks as they are."""
    spec = load_spec(item.job.spec_id)
    ends: dict[str, list[TaskEnd]] = {name: [] for name in spec.roles}
    for (role, _), task in sorted(item.tasks.items()):
        ends.setdefault(role, []).append(_end_of(task))
    return decide(spec, ends)


def _end_of(task: Task) -> TaskEnd:
    """A task as policies see it."""
    state = TaskState(task.state)
    if state is TaskState.SUCCEEDED:
        return TaskEnd(state, PolicyEvent.SUCCEEDED, 0)
    if state is not TaskState.FAILED:
        return TaskEnd(state)
    seen = exit_value(task.exit)
    if seen is None or seen.reason is ExitReason.NODE_LOST:
        return TaskEnd(state, PolicyEvent.LOST)
    if seen.reason is ExitReason.EVICTED:
        return TaskEnd(state, PolicyEvent.EVICTED)
    signal = signal_of(seen)
    return TaskEnd(state, PolicyEvent.FAILED, seen.code if signal is None else 128 + signal)
