"""What a question to the scheduler may say to whom: names that the reader may know, and amounts without names of all others.

Whoever asks sees the jobs, and the names of queues, of tenants whose jobs or queues they may read. Everybody else is "another
tenant" with amounts, summed up, so that not even how many others there are can be counted.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jobs.lifecycle.reasons import explain as reason_words
from jobs.lifecycle.unmet import change_text, condition_text, filter_text
from jobs.models import Job
from jobs.reconcile.loading import Loaded
from jobs.scheduling.core.place.filters import Refusal
from jobs.scheduling.core.place.gangs import PACK, SPREAD, GangAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS
from jobs.scheduling.core.state.decisions import Reason
from jobs.scheduling.core.state.work import Job as Waiting
from jobs.scheduling.questions.explain import Condition, Holder
from jobs.scheduling.questions.whatif import AddMachines, Ask, Block, Change, End, Rank, Release, SetCap
from kernel.actor import Actor
from kernel.errors import Unavailable
from kernel.resources import RESOURCE_NAMES, Resources
from tenants.access import role_allows
from tenants.capacity import limits_tree
from tenants.quota.caps import TOGETHER
from tenants.quota.edits import Change as SetLimits
from webapi.access import visible
from webapi.fields import utc_text

PATIENCE_SECONDS = (
    20.0  # For a turn. A question takes a whole core for up to a few seconds; one at a time leaves the rest served.
)
AGAIN_SECONDS = 5  # After which another turn is worth a try.
IDS_AT_ONCE = 500
_turn = threading.BoundedSemaphore(1)

Shown = dict[str, Any]


@contextmanager
def one_question() -> Iterator[None]:
    """Answer one question at a time in this process; Unavailable where the turn does not come."""
    if not _turn.acquire(timeout=PATIENCE_SECONDS):
        raise Unavailable(
            "Others are asking the scheduler at the moment.",
            hint="Ask again in some seconds.",
            retry_after_seconds=AGAIN_SECONDS,
        )
    try:
        yield
    finally:
        _turn.release()


@dataclass
class Reader:
    """Who asks, and what may be named to them."""

    actor: Actor
    loaded: Loaded
    language: str = "en"
    other_models: frozenset[int] = frozenset()  # Pools that take the job only if it does without the GPU model that it named.
    _queues: dict[int, str] = field(default_factory=dict)
    _jobs: dict[str, str] = field(default_factory=dict)
    tenants: dict[str, uuid.UUID] = field(default_factory=dict)  # Whose the jobs are that were looked up.

    def __post_init__(self) -> None:
        tree = limits_tree()
        for queue in tree.queues:
            number = self.loaded.numbers.queue_at.get(queue.id)
            if number is not None and role_allows(self.actor, tree.tenants.get(queue.id), "queue.read"):
                self._queues[number] = queue.name

    def look_up(self, job_ids: Iterable[str]) -> None:
        """Find out which of these jobs the reader sees. One query for 500."""
        wanted = sorted({found for text in job_ids if (found := _uuid(text)) is not None and text not in self._jobs})
        for start in range(0, len(wanted), IDS_AT_ONCE):
            rows = visible(self.actor, Job).filter(id__in=wanted[start : start + IDS_AT_ONCE])
            for job_id, name, tenant_id in rows.values_list("id", "name", "tenant_id"):
                self._jobs[str(job_id)], self.tenants[str(job_id)] = name, tenant_id

    def name(self, job_id: str, name: str) -> None:
        """A job of the question itself."""
        self._jobs[job_id] = name

    def job(self, job_id: str) -> Shown | None:
        name = self._jobs.get(job_id)
        return None if name is None else {"id": job_id, "name": name}

    def jobs(self, job_ids: Iterable[str]) -> list[Shown]:
        return [shown for job_id in job_ids if (shown := self.job(job_id)) is not None]

    def queue(self, number: int) -> Shown | None:
        name, queue_id = self._queues.get(number), self.loaded.numbers.queues[number] if number > 0 else None
        return None if name is None or queue_id is None else {"id": str(queue_id), "name": name}

    def find_queue(self, text: str) -> uuid.UUID | None:
        """The one queue of this name or id that the reader may know."""
        ids = self.loaded.numbers.queues
        found = [number for number, name in self._queues.items() if text in (name, str(ids[number]))]
        return ids[found[0]] if len(found) == 1 else None

    def pool(self, number: int) -> str | None:
        return self.loaded.around.pools[number].name if 0 <= number < len(self.loaded.around.pools) else None


# --- Conditions -----------------------------------------------------------------------------------------------------------


def reason_json(reason: Reason | None, job_id: str, reader: Reader) -> Shown:
    """A reason in words; what the loader knows of a job's own reasons is part of it."""
    if reason is None:
        words = reason_words("scheduling", {}, reader.language)
        return {"code": "scheduling", "text": words.text}
    return {"code": reason.code, "text": _text(reason, job_id, reader)}


def condition_json(condition: Condition, job_id: str, reader: Reader) -> Shown:
    """One condition with its numbers, who holds what, and its words."""
    reason = condition.reason
    return {
        "code": reason.code,
        "text": _text(reason, job_id, reader, _kept_for(condition, reader)),
        "own": condition.is_own,
        "instead": condition.instead,
        "pool": reader.pool(reason.pool),
        "queue": reader.queue(reason.queue),
        "resource": RESOURCE_NAMES[reason.resource] if reason.resource >= 0 else None,
        "need": reason.need,
        "held": reason.held,
        "limit": reason.limit,
        "kept": reason.kept,
        "fitting": reason.fitting,
        "until": _moment(reason.until),
        "filters": [_filter_json(one, reader.language) for one in reason.filters],
        "held_by": _holders_json(condition.holders, reader),
        "jobs": reader.jobs(condition.jobs),
        "jobs_count": len(condition.jobs),
    }


def _kept_for(condition: Condition, reader: Reader) -> Shown:
    """The job that room is kept for, with what it needs: by name where the reader sees it."""
    if condition.reason.code not in ("behind", "booked") or len(condition.jobs) != 1:
        return {}
    (job_id,) = condition.jobs
    gang = next((one.gang for one in reader.loaded.state.waiting if one.id == job_id), None)
    if gang is None:
        return {}
    need = sum((role.ask.resources * role.minimum for role in gang.roles), start=Resources())
    shown = reader.job(job_id)
    return {"for": shown["name"] if shown is not None else None, "for_need": need.as_dict()}


def _text(reason: Reason, job_id: str, reader: Reader, more: Shown | None = None) -> str:
    withheld = reader.loaded.withheld.get(job_id)
    if withheld is not None and withheld[0] == reason.code:
        return reason_words(withheld[0], withheld[1], reader.language).text
    queue = reader.queue(reason.queue)
    document = {
        "code": reason.code,
        "pool": reader.pool(reason.pool),
        "queue": queue["name"] if queue is not None else None,
        "resource": RESOURCE_NAMES[reason.resource] if reason.resource >= 0 else "",
        "need": reason.need,
        "held": reason.held,
        "limit": reason.limit,
        "kept": reason.kept,
        "fitting": reason.fitting,
        "until": _moment(reason.until),
        "since": _moment(reason.since),
        "what": reason.what or None,
        "filters": [{"code": one.code, "machines": one.machines} for one in reason.filters],
        **(more or {}),
    }
    return condition_text(document, reader.language)


def _filter_json(one: Refusal, language: str) -> Shown:
    return {
        "code": one.code,
        "text": filter_text(one.code, language),
        "machines": one.machines,
        "need": one.need,
        "best": one.best,
        "never": one.never,
    }


def _holders_json(holders: Iterable[Holder], reader: Reader) -> list[Shown]:
    """Queues that the reader knows by name; all others as one row per standing."""
    rows: dict[tuple[str, str, bool], Shown] = {}
    for one in holders:
        queue = reader.queue(one.queue)
        key = (queue["id"] if queue is not None else "", one.standing.name.lower(), one.gangs == 0)
        row = rows.setdefault(
            key,
            {
                "queue": queue,
                **Resources().as_dict(),
                "jobs": 0,
                "since": None,
                "standing": key[1],
                "kept": one.gangs == 0,
            },
        )
        for name, amount in zip(RESOURCE_NAMES, one.amount, strict=True):
            row[name] += amount
        row["jobs"] += one.gangs
        since = _moment(one.since)
        row["since"] = since if row["since"] is None or (since is not None and since < row["since"]) else row["since"]
    return list(rows.values())


# --- Changes --------------------------------------------------------------------------------------------------------------


def changes_json(changes: Iterable[Change], job: Waiting, reader: Reader) -> list[Shown]:
    """Changes as `POST /what-if` takes them, each with its words. Ends of jobs that the reader does not see are counted."""
    bodies: list[Shown] = []
    hidden, count = Resources(), 0
    for change in changes:
        if isinstance(change, End) and reader.job(change.job_id) is None:
            hidden, count = hidden + _held(change.job_id, reader), count + 1
            continue
        body = _change(change, job, reader)
        bodies += [body] if body is not None else []
    if count:
        bodies.append({"end": {"count": count, "amounts": hidden.as_dict()}})
    return [{"change": body, "text": change_text(body, reader.language)} for body in bodies]


def _change(change: Change, job: Waiting, reader: Reader) -> Shown | None:
    match change:
        case Release() if not job.pools:
            return None  # What withholds it is that no pool takes it: the other changes are about that.
        case Release():
            code = job.withheld.code if job.withheld is not None else "array_parallelism" if job.array else "not_before"
            return {"release": {"job": change.job_id, "from": code}}
        case Ask():
            return {"ask": {"job": change.job_id, **_ask(change, job, reader)}}
        case Rank():
            if change.order is not None:
                return {"rank": {"job": change.job_id, "first": True}}
            return {"rank": {"job": change.job_id, "priority": change.priority}}
        case SetLimits():
            return {"quota": _quota(change, reader)}
        case SetCap():
            return {"cap": _cap(change, job)}
        case End():
            return {"end": _end(change.job_id, reader)}
        case Block():
            return {"uncordon": {"pool": reader.pool(change.pool), "node": change.name}}
        case AddMachines():
            return {"add_nodes": _nodes(change, reader)}
        case _:
            return None


def _ask(change: Ask, job: Waiting, reader: Reader) -> Shown:
    found: Shown = {}
    if change.gang is not None:
        found |= _differences(job.gang, change.gang)
    if change.pools is not None:
        more = [pool for pool in change.pools if pool not in job.pools]
        found["pools"] = [reader.pool(pool) for pool in more]
        if any(pool in reader.other_models for pool in more):
            found["any_model"] = True
    if change.max_runtime is not None:
        found["max_runtime_seconds"] = change.max_runtime
    return found


def _differences(before: GangAsk, after: GangAsk) -> Shown:
    """In what an ask is smaller, or wishes for less."""
    roles: Shown = {}
    found: Shown = {}
    for old, new in zip(before.roles, after.roles, strict=True):
        values: Shown = {}
        if new.minimum != old.minimum:
            values["replicas"] = new.minimum
        if new.ask.gpu_millis != old.ask.gpu_millis:
            values["gpu"] = new.ask.gpu_millis // WHOLE_MILLIS
        for name in ("cpu_millis", "memory_bytes"):
            if getattr(new.ask, name) != getattr(old.ask, name):
                values[name] = getattr(new.ask, name)
        if values:
            roles[new.role] = values
        for wish, changed in (
            ("any_model", new.ask.models != old.ask.models),
            ("any_label", new.ask.needs != old.ask.needs),
            ("shared_cores", new.ask.exclusive != old.ask.exclusive),
            ("anywhere", new.together != old.together and old.together not in (PACK, SPREAD)),
        ):
            if changed:
                found[wish] = True
    if after.together != before.together:
        found["anywhere"] = True
    return {"roles": roles, **found} if roles else found


def is_about_others(change: Change, job: Waiting, reader: Reader) -> bool:
    """Whether it would change limits of a queue that the reader does not see and that is not above the job's own."""
    if not isinstance(change, SetLimits):
        return False
    numbers = reader.loaded.numbers
    parents = {queue.id: queue.parent_id for queue in reader.loaded.state.queues}
    above, here = set(), numbers.queues[job.queue]
    while here is not None and here not in above:
        above.add(here)
        here = parents.get(here)
    return change.queue_id not in above and reader.queue(numbers.queue_at.get(change.queue_id, 0)) is None


def _quota(change: SetLimits, reader: Reader) -> Shown:
    queue = reader.queue(reader.loaded.numbers.queue_at.get(change.queue_id, 0))
    pool = reader.pool(reader.loaded.numbers.pool_at.get(change.pool_id, -1))
    named = {"queue": queue["id"], "queue_name": queue["name"]} if queue is not None else {}
    return {**named, "pool": pool, "resource": change.resource, **change.values}


def _cap(change: SetCap, job: Waiting) -> Shown:
    """Which of the job's caps, by how many tenants above its own: the reader need not know that tenant."""
    together = {"together": True} if change.user_id == TOGETHER else {}
    above = job.tenants.index(change.tenant_id)
    return {"job": job.id, "above": above, **together, "what": change.what, "amount": change.amount}


def _end(job_id: str, reader: Reader) -> Shown:
    named = reader.job(job_id)
    return {"job": job_id, "name": named["name"] if named else None, "amounts": _held(job_id, reader).as_dict()}


def _held(job_id: str, reader: Reader) -> Resources:
    amounts = Resources()
    for one in reader.loaded.state.running:
        if one.job.id == job_id:
            for _, amount in one.need:
                amounts += Resources(*amount)
    return amounts


def _nodes(change: AddMachines, reader: Reader) -> Shown:
    one = change.machines[0]
    return {
        "pool": reader.pool(one.pool),
        "count": len(change.machines),
        "gpu_millis": one.gpus * WHOLE_MILLIS,
        "cpu_millis": one.cpu_millis,
        "memory_bytes": one.memory_bytes,
        "gpu_model": one.model,
    }


def _moment(at: int) -> str | None:
    return utc_text(datetime.fromtimestamp(at, UTC)) if at > 0 else None


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
