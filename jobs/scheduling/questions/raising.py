"""The lowest limits and caps, and the fewest machines, that would be enough for a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobs.lifecycle.wait_reasons import WAITS
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.gangs import at_least
from jobs.scheduling.core.snapshot import State
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Condition, Settled
from jobs.scheduling.questions.variants import copies_on, machine_for, tolerated
from jobs.scheduling.questions.whatif import AddMachines, Change, Rank, SetCap, apply, whole_of
from kernel.resources import RESOURCE_NAMES
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.caps import TOGETHER, CapRefusal
from tenants.capacity.quota.edits import Change as SetLimits
from tenants.capacity.quota.edits import new_breaks
from tenants.capacity.quota.limits import AMOUNT_MAX, validate


class Raising:
    """Changes of limits, caps and machines for one job. `found`: the conditions that refuse it."""

    def __init__(self, settled: Settled, job: JobAsk, found: Sequence[Condition]) -> None:
        self.settled = settled
        self.core: Core = settled.core
        self.job = job
        self.found = found
        self.caps = self._refusing_caps()

    def _refusing_caps(self) -> tuple[CapRefusal, ...]:
        """Every cap that refuses the job."""
        people, job = self.core.holdings, self.job
        return people.refusals(job, least(job.gang)) if people else ()

    def _raised(self, pool: int, *, guarantees: bool = True) -> tuple[SetLimits, ...]:
        """Changes of the limits that refuse the job in a pool, just large enough; () where none does. `guarantees`: also lower
        the guarantees of other queues that keep idle capacity from it."""
        shares, pools = self.core.shares, {at for at, _ in self._least(pool)}
        ceilings: dict[tuple[int, int, int], int] = {}
        lowered: list[SetLimits] = []
        for condition in self.found:
            reason = condition.reason
            if reason.pool not in pools:
                continue
            if reason.code == WaitCode.CEILING:
                most = reason.held + reason.need + reason.kept
                for node in shares.path[reason.queue]:  # A ceiling may not exceed that of the queue above.
                    at = node, reason.pool, reason.resource
                    if node == reason.queue or self._ceiling(*at) < most:
                        ceilings[at] = max(most, ceilings.get(at, 0))
            elif reason.code == WaitCode.WITHHELD and guarantees:
                lowered += self._lowered(reason.pool, reason.resource, reason.held + reason.need - reason.limit)
        raised = []
        for (node, at_pool, resource), most in ceilings.items():
            queue_id = shares.queue_ids[node]
            if queue_id is not None:
                raised.append(SetLimits(queue_id, shares.pool_ids[at_pool], RESOURCE_NAMES[resource], {"ceiling": most}))
        return (*raised, *lowered)

    def _raised_if_allowed(self, pool: int) -> tuple[SetLimits, ...]:
        raised = self._raised(pool)
        return raised if self._is_allowed(self.settled.state, raised) else ()

    def _ceiling(self, node: int, pool: int, resource: int) -> int:
        """The ceiling of a queue itself; `AMOUNT_MAX` where it has none."""
        shares = self.core.shares
        queue = next((queue for queue in self.settled.state.queues if queue.id == shares.queue_ids[node]), None)
        limit = queue.limit(shares.pool_ids[pool], RESOURCE_NAMES[resource]) if queue is not None and node else None
        return AMOUNT_MAX if limit is None or limit.ceiling is None else limit.ceiling

    def _lowered(self, pool: int, resource: int, lacking: int) -> list[SetLimits]:
        """Guarantees that keep idle capacity from the job, lowered by `lacking` in all; [] where that cannot be done."""
        shares, queues = self.core.shares, {queue.id: queue for queue in self.settled.state.queues}
        changes = []
        for keeper, kept in shares.keepers(self.job.queue, pool, resource):
            queue_id = shares.queue_ids[keeper]
            if lacking <= 0 or queue_id is None:
                break
            limit = queues[queue_id].limit(shares.pool_ids[pool], RESOURCE_NAMES[resource])
            less = min(kept, lacking, limit.guarantee)
            if less:
                values = {"guarantee": limit.guarantee - less, "deserved": limit.owed}
                changes.append(SetLimits(queue_id, shares.pool_ids[pool], RESOURCE_NAMES[resource], values))
            lacking -= less
        return changes if lacking <= 0 else []

    def _owed(self, pool: int) -> tuple[Change, ...]:
        """Deserved amounts of the job's queue and those above it, raised to what each would hold with the job."""
        state, shares = self.settled.state, self.core.shares
        queues = {queue.id: queue for queue in state.queues}
        changes = []
        for at, amount in self._least(pool):
            for node in shares.path[self.job.queue]:
                queue_id = shares.queue_ids[node]
                if not node or queue_id is None:
                    continue
                limit = queues[queue_id].limit(shares.pool_ids[at], "gpu_millis")
                wanted = shares.used(node, at)[2] + amount[2]
                if amount[2] and limit.owed < wanted:
                    changes.append(SetLimits(queue_id, shares.pool_ids[at], "gpu_millis", {"deserved": wanted}))
        return tuple(changes) if changes and self._is_allowed(state, changes) else ()

    def _least(self, pool: int) -> tuple[tuple[int, tuple[int, int, int]], ...]:
        return self.core.live.shapes.of(self.job.gang, self.job.pools).least[pool]

    @staticmethod
    def _is_allowed(state: State, changes: Sequence[Change]) -> bool:
        """Whether these changes break no rule of the tree of limits that holds now."""
        after = apply(state, changes)
        return not new_breaks(validate(state.queues, state.capacities), validate(after.queues, after.capacities))

    def _raised_caps(self, ahead: Sequence[str]) -> tuple[Change, ...]:
        """The caps that refuse the job, raised just enough for it and the jobs `ahead` of it."""
        job, waiting = self.job, self.settled.waiting
        if job.user is None:
            return ()
        changes = []
        for refusal in self.caps:
            jobs_ahead = [
                waiting[job_id]
                for job_id in ahead
                if job_id in waiting and self.core.holdings.counts(waiting[job_id], job, refusal)
            ]
            amount = refusal.used + refusal.need + sum(getattr(least(job_ahead.gang), refusal.what) for job_ahead in jobs_ahead)
            changes.append(SetCap(refusal.tenant_id, TOGETHER if refusal.together else job.user, refusal.what, amount))
        return tuple(changes)

    def _more(self, pool: int) -> tuple[Change, ...]:
        """New machines that would take the whole gang, and what guarantees of other queues keep beyond present capacity; ()
        where the job does not lack room."""
        lacks = [
            condition.reason
            for condition in self.found
            if WAITS[condition.reason.code].machines_help and condition.reason.pool in (pool, -1)
        ]
        if not lacks:
            return ()
        state, gang = self.settled.state, at_least(self.job.gang)
        inside = [machine for machine in state.machines if machine.pool == pool and machine.taints <= tolerated(gang)]
        like = max(
            inside, key=lambda machine: (machine.gpus, machine.cpu_millis, machine.memory_bytes, machine.name), default=None
        )
        roles = [role for role in gang.roles if role.pool in (None, pool)]
        if not roles:
            return ()
        new_machine = machine_for([role.ask for role in roles], like, pool)
        count = sum(-(-role.minimum // max(1, copies_on(role.ask, new_machine))) for role in roles)
        whole = whole_of(new_machine)
        for reason in lacks:
            if reason.code in (WaitCode.WITHHELD, WaitCode.CAPACITY):
                each = getattr(whole, RESOURCE_NAMES[reason.resource])
                count = max(count, -(-(reason.held + reason.need - reason.limit) // max(1, each)))
        known = {machine.name for machine in state.machines if machine.pool == pool}
        names = [name for number in range(len(known) + count) if (name := f"more-{number + 1}") not in known]
        return (AddMachines(tuple(replace(new_machine, name=name) for name in names[:count])),)


def merged(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The same changes, but one for each limit, cap or rank, the last; and one for each pool with all its new machines."""
    made: dict[object, Change] = {}
    for change in changes:
        match change:
            case AddMachines():
                at: object = (AddMachines, change.machines[0].pool)
                before = made.get(at)
                machines = (*(before.machines if isinstance(before, AddMachines) else ()), *change.machines)
                made[at] = AddMachines(tuple(replace(machine, name=f"more-{n}") for n, machine in enumerate(machines, start=1)))
            case SetLimits():
                made[SetLimits, change.queue_id, change.pool_id, change.resource, *change.values] = change
            case SetCap():
                made[SetCap, change.tenant_id, change.user_id, change.what] = change
            case Rank():
                made[Rank, change.job_id] = change
            case _:
                made[len(made)] = change
    return tuple(made.values())
