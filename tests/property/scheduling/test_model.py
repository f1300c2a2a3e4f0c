"""A small installation explored exhaustively: every order in which a few jobs, limits, machines and passes can come about.

Two tenants, one pool of two machines with two GPUs each, four jobs of three shapes, two sets of limits. From the empty state
every event that is possible is taken, breadth first, and states that were met before are not gone on from: what a core decides
follows from its state (`test_kept_state.py`). After every pass all that is promised of a schedule must hold.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build
from jobs.scheduling.core.state.decisions import Admit, Claim, Evict
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.log import LimitsChanged, apply
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

POOL = Pool(uuid.UUID(int=90), "pool", PoolRules("pack"))
NODES, GPUS = 2, 2
ALL = NODES * GPUS * 1000
ROOT = LimitedQueue(uuid.UUID(int=1), None, "root")
LIMITS = (
    (Limit(deserved=2000), Limit()),
    (Limit(guarantee=1000, deserved=3000), Limit(ceiling=1000)),
)
CAPACITY = (Capacity(POOL.id, "pool", Resources(NODES * 8000, NODES << 30, ALL)),)
Event = tuple[str, int]
Path = tuple[Event, ...]


def gang(tasks: int, gpus: int, most: int = 0) -> GangAsk:
    return GangAsk((RoleAsk("worker", TaskAsk(1000, 1 << 10, gpus * 1000), tasks, most or tasks),))


JOBS = (
    JobAsk("job-0", 1, gang(1, 2), (0,), 0, 500),
    JobAsk("job-1", 2, gang(1, 1, 3), (0,), 0, 500),
    JobAsk("job-2", 1, gang(2, 2), (0,), 0, 900),
    JobAsk("job-3", 2, gang(2, 1), (0,), 0, 100),
)


def queues_of(choice: int) -> tuple[LimitedQueue, ...]:
    limits = LIMITS[choice]
    below = (LimitedQueue(uuid.UUID(int=10 + at), ROOT.id, "ab"[at], {POOL.id: {"gpu_millis": limits[at]}}) for at in range(2))
    return (ROOT, *below)


class World:
    """One core and what happened to it."""

    def __init__(self, least_runtime: int) -> None:
        self.machines = [Machine(f"n{number}", 0, 8000, 1 << 30, GPUS) for number in range(NODES)]
        policy = Policy(least_runtime_seconds=least_runtime, history_seconds=1 << 40, aging_seconds=0)
        self.core: Core = build(State(1, (POOL,), tuple(self.machines), queues_of(0), CAPACITY, policy=policy))
        self.now = 1
        self.limits = 0
        self.submitted: dict[str, JobAsk] = {}  # In their order.
        self.over: set[str] = set()  # Ended or withdrawn.
        self.evicted: set[str] = set()
        self.claims: set[str] = set()  # Whose room was being cleared after the last pass.

    def do(self, event: Event) -> None:
        what, number = event
        name = f"job-{number}"
        if what == "submit":
            self.submitted[name] = replace(JOBS[number], submitted_at=self.now + len(self.submitted))
            self.core.submit(self.submitted[name])
        elif what == "end":
            self.core.ended(name)
            if name in self.evicted:
                self.evicted.discard(name)
                self.core.submit(self.submitted[name])
            else:
                self.over.add(name)
        elif what == "withdraw":
            self.core.withdraw(name)
            self.over.add(name)
        elif what == "cordon":
            facts = self.machines[number] = replace(self.machines[number], blocked="" if self.machines[number].blocked else "out")
            self.core.machine_changed(facts)
        elif what == "limits":
            self.limits = 1 - self.limits
            apply(self.core, LimitsChanged(queues_of(self.limits), CAPACITY))
        else:
            self.now += number
            self.look()

    def events(self) -> Iterator[Event]:
        for number, job in enumerate(JOBS):
            if job.id not in self.submitted:
                yield "submit", number
            elif job.id in self.core.ordering or job.id in self.core.transfers:
                yield "withdraw", number
            elif job.id in self.core.running:
                yield "end", number
        yield "cordon", 0
        yield "limits", 0
        yield "pass", 1
        yield "pass", 400

    def key(self) -> tuple[object, ...]:
        """What all that follows depends on: of times only who came first, and who may be evicted by now."""
        core = self.core
        return (
            tuple((name, self.why(name)) for name in self.submitted if name not in self.over),
            len(self.submitted),
            frozenset(self.over),
            tuple(
                (
                    name, running.placed.tasks, running.is_leaving, running.claim is not None and running.claim.claimant.job.id,
                    self.now > running.started_at, self.now - running.started_at >= core.policy.least_runtime_seconds,
                )
                for name, running in sorted(core.running.items())
            ),
            tuple(sorted(core.live.cleared)),
            frozenset(self.evicted),
            self.machines[0].blocked,
            self.limits,
        )  # fmt: skip

    def why(self, name: str) -> str:
        reason = self.core.why(name)
        return "" if reason is None else reason.code

    def look(self) -> None:
        """One pass, and all that must be true after it."""
        core = self.core
        before = [core.shares.used(queue, 0)[2] for queue in range(3)]
        decisions = core.decide(self.now)
        self.evicted |= {decision.id for decision in decisions if isinstance(decision, Evict)}
        for decision in decisions:
            if isinstance(decision, Admit):
                (role,) = self.submitted[decision.id].gang.roles
                assert role.minimum <= len(decision.placed.tasks) <= role.maximum, "a gang was cut"
                closed = [task for task in decision.placed.tasks if core.machines.at[task.machine].blocked]
                assert not closed or decision.id in self.claims, "started where nothing may start"
        for number, limit in enumerate(LIMITS[self.limits], start=1):
            ceiling = ALL if limit.ceiling is None else limit.ceiling
            assert core.shares.used(number, 0)[2] <= max(ceiling, before[number]), "above a ceiling"
        assert core.shares.used(0, 0)[2] <= ALL
        self.claims = {decision.id for decision in decisions if isinstance(decision, Claim)} | core.transfers.keys()
        held: dict[tuple[int, int], str] = {}
        for name, running in core.running.items():
            for task in running.placed.tasks if name not in core.transfers else ():
                for device in task.devices:
                    assert held.setdefault((task.machine, device), name) == name, "two gangs hold one device"
        for name in self.submitted:
            places = (name in core.running) + (name in core.ordering) + (name in self.over)
            assert places == 1, f"{name} is in {places} places"
            assert name in core.running or name in self.over or core.why(name) is not None, f"{name} waits without a reason"

    def keeps_promises(self) -> None:
        """Who holds less than is deserved gets a GPU, if one is free or held by whoever holds more."""
        core = self.core
        limit = LIMITS[self.limits][0]
        waits = any(job.queue == 1 and (job.id in core.ordering or job.id in core.transfers) for job in self.submitted.values())
        if waits or limit.owed - core.shares.used(1, 0)[2] < 1000 or not self.has_one_to_give():
            return
        self.now += 1  # Nobody is evicted in the second in which it started.
        core.submit(JobAsk("owner", 1, gang(1, 1), (0,), self.now, 1000))
        decisions = core.decide(self.now)
        assert any(isinstance(decision, Admit | Claim) and decision.id == "owner" for decision in decisions), (
            "what was promised is not there"
        )
        core.withdraw("owner") if "owner" in core.transfers else core.ended("owner")

    def has_one_to_give(self) -> bool:
        core = self.core
        theirs = core.shares.used(2, 0)[2]
        open_machines = [number for number, machine in enumerate(self.machines) if not machine.blocked]
        if any(1000 in core.machines.devices_left(number) for number in open_machines):
            return True
        lent = [
            running
            for name, running in core.running.items()
            if running.job.queue == 2 and running.claim is None and not running.is_leaving and name not in core.transfers
        ]
        return theirs > LIMITS[self.limits][1].owed and any(
            task.machine in open_machines for running in lent for task in running.placed.tasks
        )

    def gives_all_back(self) -> None:
        core = self.core
        for name in sorted(core.transfers):
            core.withdraw(name)
        for name in sorted(core.running):
            core.ended(name)
        for job in core.waiting():
            core.withdraw(job.id)
        core.decide(core.now)  # What was kept for reserved starts is free again.
        assert [core.machines.devices_left(number) for number in range(NODES)] == [(1000, 1000)] * NODES
        assert [core.shares.used(queue, 0) for queue in range(3)] == [(0, 0, 0)] * 3


@dataclass
class Explored:
    states: int = 0
    depth: int = 0


def explore(least_runtime: int, states_max: int) -> Explored:
    """Breadth first, so that whatever fails does so on one of the shortest ways."""
    found = Explored()
    known = set()
    ahead: deque[Path] = deque([()])
    while ahead and found.states < states_max:
        path = ahead.popleft()
        world = World(least_runtime)
        try:
            for event in path:
                world.do(event)
            key = world.key()
            if key in known:
                continue
            known.add(key)
            found.states, found.depth = found.states + 1, len(path)
            ahead.extend((*path, event) for event in world.events())
            if path and path[-1][0] == "pass" and not least_runtime and path[-1][1] == 1:
                world.keeps_promises()
            world.gives_all_back()
        except (AssertionError, KeyError) as error:
            raise AssertionError(f"{error} after {list(path)}") from error
    return found


@pytest.mark.parametrize("least_runtime", [0, 300])
def test_whatever_comes_in_whatever_order_all_that_is_promised_holds(least_runtime: int) -> None:
    found = explore(least_runtime, 2_500)
    assert found.states == 2_500
    assert found.depth >= 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("least_runtime", [0, 300])
def test_the_same_much_deeper(least_runtime: int) -> None:
    assert explore(least_runtime, 30_000).depth >= 7
