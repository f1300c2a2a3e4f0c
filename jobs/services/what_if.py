"""What if: changes in the product's words, made on a copy of what the scheduler goes by, and a pass over it against one without.

Nothing is written. A person may think of their own jobs, of queues that they see, and of jobs that they could submit; of
machines and policy only operators may, who alone see what becomes of all jobs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from jobs.loading.state import load_state
from jobs.scheduling.questions.whatif import Answer, Change, PassResult, Start, WaitResult, apply, what_if
from jobs.services.redaction import Redactor, Shown, one_question, reason_json
from jobs.services.what_if_changes import CHANGES_MAX as CHANGES_MAX
from jobs.services.what_if_changes import read_changes
from kernel.actor import Actor
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from tenants.capacity.quota.edits import Change as SetLimits
from tenants.capacity.quota.edits import new_breaks
from tenants.capacity.quota.limits import LimitedQueue, validate
from tenants.capacity.services.edits import Consequence

NOT_ALLOWED = Text("The limits of a queue above do not allow it.", "上级队列的额度不允许。")
LISTED_MAX = 100  # Jobs of one list that are told by name.


def answer_what_if(
    entries: Sequence[Mapping[str, Any]], *, tenant: str | None, actor: Actor, now: datetime, language: str = "en"
) -> Shown:
    """Both passes and in what they differ, as far as the actor may know. InvalidInput with every mistake at its place."""
    with one_question():
        loaded = load_state(now)
        reader = Redactor(actor, loaded, language)
        changes, places = read_changes(entries, tenant=tenant, reader=reader)
        _check_limits(loaded.state.queues, loaded.state.capacities, changes, places, reader)
        answer = what_if(loaded.state, changes)
    return _answer_json(answer, changes, reader)


def forecast_limits(queues: Sequence[LimitedQueue], actor: Actor, now: datetime) -> list[Consequence]:
    """Who would start, wait for something else, or be evicted under other limits; only jobs that the actor sees."""
    with one_question():
        loaded = load_state(now)
        answer = what_if(loaded.state, list(_limit_changes(loaded.state.queues, queues)))
    reader = Redactor(actor, loaded)
    reader.look_up((*answer.starts, *answer.waits, *answer.evicted))
    waits = {wait.job_id: wait for wait in answer.after.waits}
    found = []
    for what, job_ids in (("starts", answer.starts), ("waits", answer.waits), ("is_evicted", answer.evicted)):
        for shown in reader.jobs(job_ids)[:LISTED_MAX]:
            why = reason_json(waits[shown["id"]].reason, shown["id"], reader)["text"] if what == "waits" else ""
            found.append(Consequence(what, uuid.UUID(shown["id"]), reader.named[shown["id"]].tenant_id, shown["name"], why))
    return found


def _limit_changes(before: Sequence[LimitedQueue], after: Sequence[LimitedQueue]) -> Iterable[Change]:
    """What differs between two trees of the same queues."""
    old = {queue.id: queue for queue in before}
    for queue in after:
        for pool_id, row in queue.limits.items():
            for resource, limit in row.items():
                if queue.id in old and old[queue.id].limit(pool_id, resource) != limit:
                    yield SetLimits(queue.id, pool_id, resource, limit.as_dict())


def _check_limits(
    queues: Sequence[LimitedQueue], capacities: Any, changes: Sequence[Change], places: Sequence[str], reader: Redactor
) -> None:
    """A tree of limits that would not hold is refused, as the edit itself would be."""
    mine = [(change, place) for change, place in zip(changes, places, strict=True) if isinstance(change, SetLimits)]
    if not mine:
        return
    state = apply(reader.loaded.state, changes)
    fields = []
    for found in new_breaks(validate(queues, capacities), validate(state.queues, state.capacities)):
        same = (place for change, place in mine if (change.pool_id, change.resource) == (found.pool_id, found.resource))
        place = next((at for change, at in mine if change.queue_id == found.queue_id), next(same, "/changes"))
        known = reader.queue(reader.loaded.numbers.queue_at.get(found.queue_id, 0)) is not None
        words = (
            (found.message, found.hint)
            if known
            else (
                NOT_ALLOWED,
                Text(
                    "Assume less, or ask a manager who gives the queue its limits.",
                    "请减少假设的数量，或联系设定该队列额度的管理员。",
                ),
            )
        )
        fields.append(FieldError(f"{place}/{found.column}", found.code, *words))
    if fields:
        raise InvalidInput(fields[0].message, hint=fields[0].hint, fields=fields)


# --- The answer -----------------------------------------------------------------------------------------------------------


def _answer_json(answer: Answer, changes: Sequence[Change], reader: Redactor) -> Shown:
    lists = {name: getattr(answer, name) for name in ("starts", "starts_not", "waits", "evicted", "spared", "displaced")}
    reader.look_up(job_id for ids in lists.values() for job_id in ids)
    starts = {start.job_id: start for start in answer.after.starts}
    waits = {wait.job_id: wait for wait in answer.after.waits}
    return {
        "before": _counts(answer.before),
        "after": _counts(answer.after),
        **{name: _list(ids, starts, waits, reader) for name, ids in lists.items()},
    }


def _counts(made: PassResult) -> Shown:
    return {"starts": len(made.starts), "waits": len(made.waits), "evicted": len(made.evicted)}


def _list(job_ids: Sequence[str], starts: Mapping[str, Start], waits: Mapping[str, WaitResult], reader: Redactor) -> Shown:
    seen = reader.jobs(job_ids)
    return {
        "jobs": [_job(job, starts.get(job["id"]), waits.get(job["id"]), reader) for job in seen[:LISTED_MAX]],
        "more": max(0, len(seen) - LISTED_MAX),
        "others": len(job_ids) - len(seen),
    }


def _job(shown: Shown, start: Start | None, wait: WaitResult | None, reader: Redactor) -> Shown:
    return {
        "job": shown,
        "pool": reader.pool(start.placed.pool) if start is not None else None,
        "nodes": list(start.machines[:LISTED_MAX]) if start is not None else [],
        "reason": reason_json(wait.reason, shown["id"], reader) if wait is not None else None,
        "evicts": len(wait.clears) if wait is not None else 0,
    }
