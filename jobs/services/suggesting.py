"""Changes that are suggested, as one reader may read them: as `POST /what-if` takes them, in words, and who may make them.

A member is not told to raise a ceiling or to add machines as if they could: where the reader may not make a change, its sentence
begins with who may. By role alone: whether the change holds within the limits above was tried before it was suggested.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from jobs.lifecycle.unmet import change_text
from jobs.scheduling.core.place.gangs import PACK, SPREAD, GangAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS
from jobs.scheduling.core.state.work import JobAsk as Waiting
from jobs.scheduling.questions.whatif import AddMachines, Ask, Block, Change, End, Rank, Release, SetCap
from jobs.services.priority import granted_priority
from jobs.services.redaction import Redactor, Shown
from jobs.services.what_if_changes import FOR_OPERATORS
from kernel.actor import TenantRole
from kernel.resources import Resources
from kernel.wait_codes import WaitCode
from tenants.capacity.grants import default_grant, priority_grants
from tenants.capacity.quota.caps import TOGETHER
from tenants.capacity.quota.edits import Change as SetLimits
from tenants.identity.access import role_allows

OPERATOR: Shown = {"role": "operator", "tenant": None}


def changes_json(changes: Iterable[Change], job: Waiting, reader: Redactor, now: datetime) -> list[Shown]:
    """Each change with its words, and `by`, who may make it, where the reader may not: a role, and the tenant that it is a role
    in as far as the reader may know that. Ends of jobs that the reader does not see are counted."""
    found: list[tuple[Shown, Shown | None]] = []
    hidden, held, queued = Resources(), 0, 0
    for change in changes:
        if isinstance(change, End) and reader.job(change.job_id) is None:
            if _waits(change.job_id, reader):
                queued += 1
            else:
                hidden, held = hidden + _held(change.job_id, reader), held + 1
            continue
        body = _change(change, job, reader)
        found += [(body, _by(change, job, reader, now))] if body is not None else []
    if held:
        found.append(({"end": {"count": held, "amounts": hidden.as_dict()}}, None))
    if queued:
        found.append(({"end": {"count": queued, "queued": True}}, None))
    return [{"change": body, "text": change_text(body, reader.language, by), "by": by} for body, by in found]


def may_be_thought_of(bodies: Iterable[Mapping[str, Any]], reader: Redactor) -> bool:
    """Whether a what-if takes these changes from the reader: machines are for operators, and what is not named cannot be sent."""
    is_operator = role_allows(reader.actor, None, "node.edit")
    return all(
        (is_operator or kind not in FOR_OPERATORS)
        and not (kind == "end" and "job" not in values)
        and not (kind == "quota" and "queue" not in values)
        for body in bodies
        for kind, values in body.items()
    )


def _change(change: Change, job: Waiting, reader: Redactor) -> Shown | None:
    match change:
        case Release() if not job.pools:
            return None  # What withholds it is that no pool takes it: the other changes are about that.
        case Release():
            code = WaitCode.ARRAY_PARALLELISM if job.array else WaitCode.NOT_BEFORE
            code = job.withheld.code if job.withheld is not None else code
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


def _ask(change: Ask, job: Waiting, reader: Redactor) -> Shown:
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


def is_about_others(change: Change, job: Waiting, reader: Redactor) -> bool:
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


def _quota(change: SetLimits, reader: Redactor) -> Shown:
    queue = reader.queue(reader.loaded.numbers.queue_at.get(change.queue_id, 0))
    pool = reader.pool(reader.loaded.numbers.pool_at.get(change.pool_id, -1))
    named = {"queue": queue["id"], "queue_name": queue["name"]} if queue is not None else {}
    return {**named, "pool": pool, "resource": change.resource, **change.values}


def _cap(change: SetCap, job: Waiting) -> Shown:
    """Which of the job's caps, by how many tenants above its own: the reader need not know that tenant."""
    together = {"together": True} if change.user_id == TOGETHER else {}
    above = job.tenants.index(change.tenant_id)
    return {"job": job.id, "above": above, **together, "what": change.what, "amount": change.amount}


def _end(job_id: str, reader: Redactor) -> Shown:
    named = reader.job(job_id)
    shown: Shown = {"job": job_id, "name": named["name"] if named else None}
    return {**shown, "queued": True} if _waits(job_id, reader) else {**shown, "amounts": _held(job_id, reader).as_dict()}


def _waits(job_id: str, reader: Redactor) -> bool:
    return any(waiting_job.id == job_id for waiting_job in reader.loaded.state.waiting)


def _held(job_id: str, reader: Redactor) -> Resources:
    amounts = Resources()
    for held in reader.loaded.state.running:
        if held.job.id == job_id:
            for _, amount in held.need:
                amounts += Resources(*amount)
    return amounts


def _nodes(change: AddMachines, reader: Redactor) -> Shown:
    machine = change.machines[0]
    return {
        "pool": reader.pool(machine.pool),
        "count": len(change.machines),
        "gpu_millis": machine.gpus * WHOLE_MILLIS,
        "cpu_millis": machine.cpu_millis,
        "memory_bytes": machine.memory_bytes,
        "gpu_model": machine.model,
    }


# --- Who may make them --------------------------------------------------------------------------------------------------------


def _by(change: Change, job: Waiting, reader: Redactor, now: datetime) -> Shown | None:
    """Who may make a change; None where the reader may, or there is nothing to do."""
    actor = reader.actor
    match change:
        case AddMachines() | Block():
            return None if role_allows(actor, None, "node.edit") else OPERATOR
        case SetLimits():
            return _manager(_owner_above(change.queue_id, reader), "queue.limit", reader)
        case SetCap() if change.user_id == TOGETHER:
            return _manager(_owner_above(_top_queue(change.tenant_id, reader), reader), "queue.limit", reader)
        case SetCap():
            return _manager(change.tenant_id, "cap.edit", reader)
        case End():
            return _manager(reader.named[change.job_id].tenant_id, "job.stop", reader, reader.named[change.job_id].user_id)
        case Release() if job.tenants and job.withheld is not None and job.withheld.code == WaitCode.HELD:
            return _manager(job.tenants[0], "job.edit", reader, job.user)
        case Rank() if job.tenants:
            return _ranker(change, job, reader, now)
        case _:
            return None


def _manager(tenant_id: uuid.UUID | None, verb: str, reader: Redactor, owner_id: uuid.UUID | None = None) -> Shown | None:
    """The managers of a tenant, or operators where there is none; None where the reader may do it."""
    if role_allows(reader.actor, tenant_id, verb, owner_id):
        return None
    return OPERATOR if tenant_id is None else {"role": "manager", "tenant": reader.tenant(tenant_id)}


def _ranker(change: Rank, job: Waiting, reader: Redactor, now: datetime) -> Shown | None:
    """A person moves their own jobs among their own, and raises priorities as far as they may; all else is for managers, or for
    operators where it is above what managers may."""
    tenant_id = job.tenants[0]
    if change.order is not None:
        others = [
            waiting_job
            for waiting_job in reader.loaded.state.waiting
            if waiting_job.queue == job.queue and waiting_job.id != job.id
        ]
        among_own = all((waiting_job.user, waiting_job.priority) == (job.user, job.priority) for waiting_job in others)
        return _manager(tenant_id, "job.move", reader, job.user if among_own else None)
    wanted = change.priority or 0
    if wanted <= granted_priority(reader.actor, tenant_id, now=now):
        return _manager(tenant_id, "job.edit", reader, job.user)
    highest = priority_grants().highest(tenant_id, TenantRole.MANAGER, default_grant(TenantRole.MANAGER))
    return OPERATOR if wanted > highest else {"role": "manager", "tenant": reader.tenant(tenant_id)}


def _owner_above(queue_id: uuid.UUID | None, reader: Redactor) -> uuid.UUID | None:
    """The tenant that owns the queue above, whose managers set limits; None: operators do."""
    parent_id = next((queue.parent_id for queue in reader.tree.queues if queue.id == queue_id), None)
    return None if parent_id is None else reader.tree.tenants.get(parent_id)


def _top_queue(tenant_id: uuid.UUID, reader: Redactor) -> uuid.UUID | None:
    """The first of a tenant's queues from the root on."""
    return next((queue.id for queue in reader.tree.queues if reader.tree.tenants[queue.id] == tenant_id), None)
