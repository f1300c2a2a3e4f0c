"""Records of decisions: why here, why now, why not there, in plain values that stay true when everything else has changed.

A record is made from what a pass decided and the core that decided it, right after the pass. Pools and machines are kept by
name, queues by id, jobs by id; which names a reader may see is decided when the record is read. Which filter keeps how many
machines out is counted as of the end of the pass, once for all equal tasks of a pool.

Every list in a record has a bound, and says how many entries there were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from jobs.lifecycle.filter_words import FilterCode
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.filters import Refusal, refusal
from jobs.scheduling.core.place.gangs import GangAsk, Placed
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.core.place.ranking import ScoreRow, ranking_of
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.place.topology import topology_of
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reserve, Wait, WaitReason
from kernel.resources import RESOURCE_NAMES

START, WAIT_TURNED_START, EVICT, CLAIM, REFUSE = "start", "wait_turned_start", "evict", "claim", "refuse"
KINDS = (START, WAIT_TURNED_START, EVICT, CLAIM, REFUSE)
NODES_MAX = 64  # Machines, and victims, that are listed; counts say how many there were.
ROLES_MAX = 8  # Roles whose filters and scores are kept.


@dataclass(frozen=True, slots=True)
class Names:
    """What the numbers of a core stand for in a record: names of pools, ids of queues as text ("" for none)."""

    pools: Sequence[str]
    queues: Sequence[str]
    policy: str = ""  # See `policy_version`.


@dataclass(frozen=True, slots=True)
class Record:
    """One decision about one job, ready to be stored. `pool` is the name of its pool, "" where it is about none."""

    job_id: str
    kind: str
    pool: str
    payload: Mapping[str, Any]


@dataclass(slots=True)
class _Counted:
    """Refusals by filter, counted once per pool and ask."""

    known: dict[tuple[int, TaskAsk], tuple[Refusal, ...]] = field(default_factory=dict)


def records_of(
    decisions: Iterable[Decision], core: Core, names: Names, *, waited: Mapping[str, WaitReason | None] | None = None
) -> list[Record]:
    """The records of a pass, in its order. `waited`: the jobs that waited before this pass, each with its reason."""
    counted = _Counted()
    made = (record_of(decision, core, names, waited=waited, counted=counted) for decision in decisions)
    return [record for record in made if record is not None]


def record_of(
    decision: Decision,
    core: Core,
    names: Names,
    *,
    waited: Mapping[str, WaitReason | None] | None = None,
    counted: _Counted | None = None,
) -> Record | None:
    """The record of one decision; None for a reserved start, which is stored elsewhere."""
    counted = counted or _Counted()
    match decision:
        case Admit():
            return _start(decision, core, names, waited or {}, counted)
        case Evict():
            return _evict(decision, core, names)
        case Claim():
            return _claim(decision, core, names, counted)
        case Wait():
            return Record(decision.id, REFUSE, _name(names, decision.reason.pool), _refusal(decision, names))
        case Reserve():
            return None


def policy_version(core: Core) -> str:
    """A name for the policy and the rules of pools, twelve hex digits: equal policies have equal names."""
    rules = sorted((pool, repr(pool_rules)) for pool, pool_rules in core.machines.rules.items())
    text = repr((sorted(asdict(core.policy).items()), rules))
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def reason_payload(reason: WaitReason, names: Names) -> dict[str, Any]:
    """A reason with its numbers; zeros and empty texts are left out."""
    found: dict[str, Any] = {"code": reason.code}
    if reason.pool >= 0:
        found["pool"] = _name(names, reason.pool)
    if reason.queue > 0:
        found["queue"] = names.queues[reason.queue]
    if reason.resource >= 0:
        found["resource"] = RESOURCE_NAMES[reason.resource]
    for key in ("need", "held", "limit", "kept", "fitting", "since", "until", "what"):
        if getattr(reason, key):
            found[key] = getattr(reason, key)
    if reason.filters:
        found["filters"] = [_filter(refusal) for refusal in reason.filters]
    return found


def _start(decision: Admit, core: Core, names: Names, waited: Mapping[str, WaitReason | None], counted: _Counted) -> Record:
    placed = decision.placed
    payload = {**_placement(placed, core, names, counted), "standing": decision.standing.name.lower()}
    running = core.running.get(decision.id)
    if running is not None:
        payload["together"] = _together(running.job.gang)
        payload["queue"] = names.queues[running.job.queue]
        payload["waited_seconds"] = max(0, core.now - running.job.submitted_at)
    before = waited.get(decision.id)
    if before is not None:
        payload["waited_for"] = reason_payload(before, names)
    kind = WAIT_TURNED_START if decision.id in waited else START
    return Record(decision.id, kind, _name(names, placed.pool), payload)


def _evict(decision: Evict, core: Core, names: Names) -> Record:
    running = core.running.get(decision.id)
    payload: dict[str, Any] = {"claimant": decision.claimant, "cost": decision.cost, "policy": names.policy}
    if decision.to is not None:
        payload["moves_to"] = _nodes(decision.to, core)
    if decision.rebalances:
        payload["rebalances"] = True
    pool = ""
    if running is not None:
        pool = _name(names, running.placed.pool)
        payload |= {
            "standing": running.standing.name.lower(),
            "ran_seconds": max(0, core.now - running.started_at),
            "gpu_millis": running.gpu_millis,
            "queue": names.queues[running.job.queue],
        }
    return Record(decision.id, EVICT, pool, payload)


def _claim(decision: Claim, core: Core, names: Names, counted: _Counted) -> Record:
    victims = []
    for victim in decision.victims[:NODES_MAX]:
        running = core.running.get(victim)
        standing = running.standing.name.lower() if running is not None else ""
        told: dict[str, Any] = {"job": victim, "cost": running.cost(core.now) if running is not None else 0, "standing": standing}
        seat = core.seats.by_job.get(victim)
        if seat is not None:
            told["moves_to"] = _nodes(seat.placed, core)
        victims.append(told)
    payload = {
        **_placement(decision.placed, core, names, counted),
        "victims": victims,
        "victims_count": len(decision.victims),
        "cost": decision.cost,
    }
    return Record(decision.id, CLAIM, _name(names, decision.placed.pool), payload)


def _together(gang: GangAsk) -> dict[str, str]:
    """How the tasks of each role were to go to machines, `pack` or `spread` or within a place; "" is what holds for the gang."""
    own = {role.role: role.together for role in gang.roles[:ROLES_MAX] if role.together}
    return {**({"": gang.together} if gang.together else {}), **own}


def _nodes(placed: Placed, core: Core) -> list[str]:
    machines = sorted({task.machine for task in placed.tasks})
    return [core.machines.at[machine].name for machine in machines[:NODES_MAX]]


def _placement(placed: Placed, core: Core, names: Names, counted: _Counted) -> dict[str, Any]:
    """The machines of a placement, of how many, what kept it out of the others, and how the best of the rest scored."""
    machines = sorted({task.machine for task in placed.tasks})
    roles: dict[str, TaskAsk] = {}
    for task in placed.tasks:
        roles.setdefault(task.role, task.ask)
    state = core.machines.pools.get(placed.pool)
    return {
        "nodes": [core.machines.at[machine].name for machine in machines[:NODES_MAX]],
        "nodes_count": len(machines),
        "hops": placed.hops,
        "spans": _spans(core, placed, machines),
        "candidates": len(state.members) if state is not None else 0,
        "roles": [
            {"role": role, **_filters(core, placed.pool, roles[role], machines, counted)} for role in sorted(roles)[:ROLES_MAX]
        ],
        "scores": [{"role": role, "rows": [_row(row) for row in rows]} for role, rows in placed.tables[:ROLES_MAX]],
        "policy": names.policy,
    }


def _spans(core: Core, placed: Placed, machines: Sequence[int]) -> dict[str, int]:
    """By level of the topology (island, switch, rack), over how many places the tasks in the gang's own pool are spread."""
    if placed.pool not in core.machines.pools:
        return {}
    rules = core.machines.rules.get(placed.pool) or PoolRules()
    topology = topology_of(core.machines, placed.pool, rules.levels)
    inside = [machine for machine in machines if core.machines.at[machine].pool == placed.pool]
    return {
        level: len({topology.at(machine, depth) for machine in inside})
        for depth, level in enumerate(topology.levels)
        if topology.places[depth]
    }


def _filters(core: Core, pool: int, ask: TaskAsk, chosen: Sequence[int], counted: _Counted) -> dict[str, Any]:
    """What a task asks for, and how many machines, other than those chosen, each filter keeps out."""
    ranking = ranking_of(core.machines, pool, ask)
    refusals = counted.known.get((pool, ask))
    if refusals is None:
        refusals = counted.known[pool, ask] = ranking.tally() if ranking is not None else ()
    own: dict[FilterCode | None, int] = {}
    for machine in chosen:
        machine_class = core.machines.class_of[machine]
        if ranking is not None and machine_class.kind.pool == pool:
            code = refusal(machine_class, ranking.shape)
            own[code] = own.get(code, 0) + 1
    elsewhere = [replace(each, machines=each.machines - own.get(each.code, 0)) for each in refusals]
    return {"ask": ask.resources.as_dict(), "filters": [_filter(each) for each in elsewhere if each.machines > 0]}


def _row(row: ScoreRow) -> dict[str, Any]:
    return {"machine": row.machine, "total": row.total, "terms": [list(term) for term in row.terms]}


def _filter(refusal: Refusal) -> dict[str, Any]:
    values = {
        "code": refusal.code,
        "machines": refusal.machines,
        "need": refusal.need,
        "best": refusal.best,
        "never": refusal.never,
    }
    return {key: value for key, value in values.items() if value}


def _refusal(decision: Wait, names: Names) -> dict[str, Any]:
    return {"reason": reason_payload(decision.reason, names), "jobs": decision.jobs, "policy": names.policy}


def _name(names: Names, pool: int) -> str:
    return names.pools[pool] if 0 <= pool < len(names.pools) else ""
