"""What a question to the scheduler may say to whom: names that the reader may know, and amounts without names of all others.

A reader sees the jobs, and the names of queues, of tenants whose jobs or queues they may read. All others are "another
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

from jobs.lifecycle.filter_words import filter_text
from jobs.lifecycle.reasons import explain as reason_words
from jobs.lifecycle.unmet import condition_text
from jobs.lifecycle.wait_reasons import WAITS
from jobs.loading.state import Loaded
from jobs.scheduling.core.place.filters import Refusal
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.questions.explain import Condition, Holder
from jobs.scheduling.questions.subjects import least
from jobs.selectors.reasons import NamedJob, named_jobs, told_detail
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.errors import Unavailable
from kernel.resources import RESOURCE_NAMES, Resources
from kernel.wait_codes import WaitCode
from kernel.words import Text
from tenants.capacity.reads import Tree, limits_tree
from tenants.identity.access import role_allows
from tenants.selectors import tenant_facts

PATIENCE_SECONDS = (
    20.0  # For a turn. A question takes a whole core for up to a few seconds; one at a time leaves the rest served.
)
AGAIN_SECONDS = 5  # After which another turn is worth a try.
_turn = threading.BoundedSemaphore(1)

Shown = dict[str, Any]


@contextmanager
def one_question() -> Iterator[None]:
    """Answer one question at a time in this process; Unavailable where the turn does not come."""
    if not _turn.acquire(timeout=PATIENCE_SECONDS):
        raise Unavailable(
            Text("Others are asking the scheduler at the moment.", "目前有其他用户正在查询调度器。"),
            hint=Text("Ask again in some seconds.", "请过几秒再试。"),
            retry_after_seconds=AGAIN_SECONDS,
        )
    try:
        yield
    finally:
        _turn.release()


@dataclass
class Redactor:
    """Who asks, and what may be named to them."""

    actor: Actor
    loaded: Loaded
    language: str = "en"
    other_models: frozenset[int] = frozenset()  # Pools that take the job only if it does without the GPU model that it named.
    _queues: dict[int, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    named: dict[str, NamedJob] = field(default_factory=dict)  # The jobs that were looked up and that the reader sees.
    tree: Tree = field(init=False)

    def __post_init__(self) -> None:
        self.tree = limits_tree(with_deleted=True)
        for queue in self.tree.queues:
            number = self.loaded.numbers.queue_at.get(queue.id)
            if number is not None and role_allows(self.actor, self.tree.tenants.get(queue.id), "queue.read"):
                self._queues[number] = queue.name

    def look_up(self, job_ids: Iterable[str]) -> None:
        """Find out which of these jobs the reader sees. One query for 500."""
        self.named |= named_jobs(self.actor, {text for text in job_ids if text not in self.named})

    def name(self, job_id: str, name: str) -> None:
        """A job of the question itself."""
        self._names[job_id] = name

    def job(self, job_id: str) -> Shown | None:
        name = self._names.get(job_id)
        if name is None and job_id in self.named:
            name = self.named[job_id].name
        return None if name is None else {"id": job_id, "name": name}

    def jobs(self, job_ids: Iterable[str]) -> list[Shown]:
        return [shown for job_id in job_ids if (shown := self.job(job_id)) is not None]

    def queue(self, number: int) -> Shown | None:
        name, queue_id = self._queues.get(number), self.loaded.numbers.queues[number] if number > 0 else None
        return None if name is None or queue_id is None else {"id": str(queue_id), "name": name}

    def tenant(self, tenant_id: uuid.UUID) -> Shown | None:
        """A tenant that the reader belongs to, or any for operators. One query."""
        if tenant_id not in self.actor.roles and not self.actor.is_operator:
            return None
        facts = tenant_facts([tenant_id]).get(tenant_id)
        return None if facts is None else {"id": str(tenant_id), "name": facts.name}

    def find_queue(self, text: str) -> uuid.UUID | None:
        """The one queue of this name or id that the reader may know."""
        ids = self.loaded.numbers.queues
        found = [number for number, name in self._queues.items() if text in (name, str(ids[number]))]
        return ids[found[0]] if len(found) == 1 else None

    def pool(self, number: int) -> str | None:
        return self.loaded.around.pools[number].name if 0 <= number < len(self.loaded.around.pools) else None


# --- Conditions -----------------------------------------------------------------------------------------------------------


def reason_json(reason: WaitReason | None, job_id: str, reader: Redactor) -> Shown:
    """A reason in words; what the loader knows of a job's own reasons is part of it."""
    if reason is None:
        words = reason_words(WaitCode.SCHEDULING, {}, reader.language)
        return {"code": words.code, "text": words.text}
    return {"code": reason.code, "text": _text(reason, job_id, reader)}


def condition_json(condition: Condition, job_id: str, reader: Redactor) -> Shown:
    """One condition with its numbers, who holds what, and its words."""
    reason = condition.reason
    return {
        "code": reason.code,
        "text": _text(reason, job_id, reader, _kept_for(condition, job_id, reader)),
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
        "filters": [_filter_json(refusal, reader.language) for refusal in reason.filters],
        "held_by": _holders_json(condition.holders, reader),
        "jobs": reader.jobs(condition.jobs),
        "jobs_count": len(condition.jobs),
    }


def _kept_for(condition: Condition, job_id: str, reader: Redactor) -> Shown:
    """The job that room is kept for, with what it needs: by name where the reader sees it."""
    if not WAITS[condition.reason.code].is_for_another or len(condition.jobs) != 1:
        return {}
    (other,) = condition.jobs
    first = next((waiting_job for waiting_job in reader.loaded.state.waiting if waiting_job.id == other), None)
    if first is None:
        return {}
    kept = {"kept_for": {"job": other, "need": least(first).as_dict()}}
    return told_detail(kept, reader.named, reader.loaded.rows[job_id].tenant_id)


def _text(reason: WaitReason, job_id: str, reader: Redactor, more: Shown | None = None) -> str:
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
        "filters": [{"code": refusal.code, "machines": refusal.machines} for refusal in reason.filters],
        **(more or {}),
    }
    return condition_text(document, reader.language)


def _filter_json(refusal: Refusal, language: str) -> Shown:
    return {
        "code": refusal.code,
        "text": filter_text(refusal.code, language),
        "machines": refusal.machines,
        "need": refusal.need,
        "best": refusal.best,
        "never": refusal.never,
    }


def _holders_json(holders: Iterable[Holder], reader: Redactor) -> list[Shown]:
    """Queues that the reader knows by name; all others as one row per standing."""
    rows: dict[tuple[str, str, bool], Shown] = {}
    for holder in holders:
        queue = reader.queue(holder.queue)
        key = (queue["id"] if queue is not None else "", holder.standing.name.lower(), holder.gangs == 0)
        row = rows.setdefault(
            key,
            {
                "queue": queue,
                **Resources().as_dict(),
                "jobs": 0,
                "since": None,
                "standing": key[1],
                "kept": holder.gangs == 0,
            },
        )
        for name, amount in zip(RESOURCE_NAMES, holder.amount, strict=True):
            row[name] += amount
        row["jobs"] += holder.gangs
        since = _moment(holder.since)
        row["since"] = since if row["since"] is None or (since is not None and since < row["since"]) else row["since"]
    return list(rows.values())


def _moment(at: int) -> str | None:
    return utc_text(datetime.fromtimestamp(at, UTC)) if at > 0 else None
