"""P3 and P5: how long the scheduler's core takes for a pass, on clusters and queues that are made up from a seed.

P3, *passes*: so many jobs wait for so many nodes, of 30 queues below 6 tenants with deserved amounts and ceilings, in about 90
shapes from a tenth of a core to gangs of 8 x 8 GPUs, most of them for one GPU; nodes of 2, 4 and 8 GPUs of three models. *Cold*
is a new core's first pass after everything was submitted: it fills the cluster and tells the rest why it waits. *One change* is a
pass after one gang ended, or one job came, as often as `--changes` says, once everything runs that has a right to. With
`--limited` all jobs have a maximum run time, of 12 kinds, so that starts are reserved and others go by them.

P5, *reclaim*: so many nodes of 8 GPUs full of borrowed gangs of one tenant, of 1, 2, 4 and 8 GPUs that began at different times,
and a gang of another that is owed 64 GPUs, as 8 tasks of 8. The time is that of the pass that chooses whom to evict. Victims
are what the reverse pass leaves; that none of them can be spared, and that none are found only where there are none, is checked
by trying all sets on small clusters in `tests/property/scheduling/test_core_properties.py`.

Submitting is not part of any pass; it is told apart.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

from bench.frame import Bench
from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, Machines, TaskAsk
from jobs.scheduling.core.place.scores import Mix, PoolRules
from jobs.scheduling.core.snapshot import Pool, State
from jobs.scheduling.core.state.decisions import Admit, Evict
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.whatif import whole_of
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import Shares

POOL = uuid.UUID(int=1)
GIB = 1 << 30
MODELS = ("A", "B", "C")
COLD = ((10_000, 1_213, 5.0, 1.5), (100_000, 5_000, 60.0, 10.0))  # Waiting jobs, nodes, seconds: accepted, aimed at.
RUNTIMES = tuple(hours * 3600 for hours in (4, 6, 8, 10, 12, 18, 24, 36, 48, 72, 96, 168))
LATER, SETTLING = 110_000, 50  # When single changes begin, and how many passes before.
RECLAIM = ((500, 1.0, 0.2), (1_000, 3.0, 0.4), (5_000, 20.0, 2.0))  # Nodes, seconds: accepted, aimed at.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", default="10000x1213,100000x5000", help="P3: waiting jobs x nodes; default %(default)s")
    parser.add_argument("--changes", type=int, default=1000, help="P3: how many single changes; default 1000")
    parser.add_argument("--limited", action="store_true", help="P3: give all jobs a maximum run time")
    parser.add_argument("--backfill-depth", type=int, default=1, help="P3: reserved starts per pool; default 1")
    parser.add_argument("--full-nodes", default="500,1000,5000", help="P5: how many nodes; default %(default)s")
    parser.add_argument("--repeat", type=int, default=3, help="how often each, with another seed each time; default 3")
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace, bench: Bench) -> None:
    seeds = range(options.seed, options.seed + options.repeat)
    if bench.benchmark == "P5":
        for text in options.full_nodes.split(","):
            _reclaims(bench, int(text), seeds)
        return
    for text in options.sizes.split(","):
        jobs, nodes = map(int, text.split("x"))
        _passes(bench, jobs, nodes, seeds, options)


# --- P3 ---------------------------------------------------------------------------------------------------------------


def _passes(bench: Bench, jobs: int, nodes: int, seeds: Sequence[int], options: argparse.Namespace) -> None:
    cold, submitting, admitted, single, worst = [], [], 0, [], []
    for seed in seeds:
        bench.progress(f"{jobs} jobs x {nodes} nodes, seed {seed}")
        chance = random.Random(f"{seed} {jobs} {nodes}")
        core, waiting = busy(chance, jobs, nodes, options.backfill_depth)
        if options.limited:
            waiting = [replace(job, max_runtime=chance.choice(RUNTIMES)) for job in waiting]
        gc.collect()
        began = time.perf_counter()
        for job in waiting:
            core.submit(job)
        submitting.append(time.perf_counter() - began)
        began = time.perf_counter()
        decisions = core.decide(100_000)
        cold.append(time.perf_counter() - began)
        admitted = sum(isinstance(decision, Admit) for decision in decisions)
        settle(core)
        each = single_changes(core, chance, waiting, options.changes)
        single.append(each[len(each) // 2] * 1000)
        worst.append(each[len(each) * 99 // 100] * 1000)
    accept, aim = next(((most, best) for many, over, most, best in COLD if (many, over) == (jobs, nodes)), (None, None))
    name = f"{jobs}x{nodes}" + ("-limited" if options.limited else "")
    note = f"{admitted} started; submitting took {sorted(submitting)[len(submitting) // 2]:.2f} s"
    bench.figure(f"cold-{name}", cold, "s", accept=accept, aim=aim, less_is_better=True, note=note)
    bench.figure(f"one-change-p50-{name}", single, "ms", less_is_better=True)
    levels = (50.0, 10.0) if accept else (None, None)
    bench.figure(f"one-change-p99-{name}", worst, "ms", accept=levels[0], aim=levels[1], less_is_better=True)


def settle(core: Core) -> None:
    """Let everything run for long enough to be evicted, and those who are owed something take it."""
    for step in range(SETTLING):
        leaving = [decision.id for decision in core.decide(LATER - SETTLING + step) if isinstance(decision, Evict)]
        for job_id in leaving:
            core.ended(job_id)


def single_changes(core: Core, chance: random.Random, waiting: Sequence[JobAsk], changes: int) -> list[float]:
    """The time of the pass after each, and of telling it, in order of length."""
    found = []
    for number in range(changes):
        now = LATER + number
        if number % 2:
            like = chance.choice(waiting)
            job = replace(like, id=f"new-{number}", submitted_at=now)
            began = time.perf_counter()
            core.submit(job)
        else:
            running = chance.choice([*core.running])
            began = time.perf_counter()
            core.ended(running)
        decisions = core.decide(now)
        found.append(time.perf_counter() - began)
        for decision in decisions:
            if isinstance(decision, Evict):
                core.ended(decision.id)
    return sorted(found)


def busy(chance: random.Random, jobs: int, nodes: int, backfill_depth: int) -> tuple[Core, list[JobAsk]]:
    """An empty cluster, and who waits for it."""
    sizes = chance.choices((2, 4, 8), (3, 3, 4), k=nodes)
    machines = [
        Machine(f"node-{number:05}", 0, gpus * 12_000, gpus * 64 * GIB, gpus, chance.choice(MODELS))
        for number, gpus in enumerate(sizes)
    ]
    gangs = _gangs(chance)
    mix = Mix((gang.roles[0].ask, often) for gang, often in gangs)
    total = Resources(sum(sizes) * 12_000, sum(sizes) * 64 * GIB, sum(sizes) * WHOLE_MILLIS)
    root = LimitedQueue(uuid.UUID(int=2), None, "root")
    queues = [root]
    for tenant in range(6):
        deserved = total.gpu_millis // 8
        above = LimitedQueue(
            uuid.UUID(int=10 + tenant), root.id, f"tenant-{tenant}", _gpu(Limit(deserved=deserved, weight=1 + tenant))
        )
        queues.append(above)
        for number in range(5):
            limit = Limit(deserved=deserved // 8, ceiling=total.gpu_millis // 3)
            queues.append(LimitedQueue(uuid.UUID(int=100 + tenant * 10 + number), above.id, f"queue-{number}", _gpu(limit)))
    shares = Shares(queues, [Capacity(POOL, "pool", total)])
    leaves = [index for index, below in enumerate(shares.children) if not below]
    core = Core(
        Machines(machines, {0: PoolRules(policy="fragmentation", mix=mix, shares=True, runners_up=0)}),
        shares,
        Policy(backfill_depth=backfill_depth),
    )
    asks, often = [gang for gang, _ in gangs], [many for _, many in gangs]
    waiting = [
        JobAsk(
            f"job-{number:06}", chance.choice(leaves), gang, (0,), chance.randrange(60_000, 100_000),
            chance.choice((100, 500, 500, 900)),
            checkpoint_seconds=1800,
        )
        for number, gang in enumerate(chance.choices(asks, often, k=jobs))
    ]  # fmt: skip
    return core, waiting


def large_state(chance: random.Random, jobs: int, nodes: int) -> State:
    """The state of P3 after everything was submitted, before the first pass."""
    core, waiting = busy(chance, jobs, nodes, backfill_depth=1)
    queues = tuple(queue for queue in core.shares._limited if queue is not None)
    total = Resources()
    for machine in core.machines.at:
        total += whole_of(machine)
    return State(
        100_000, (Pool(POOL, "pool", core.machines.rules.get(0)),), tuple(core.machines.at), queues,
        (Capacity(POOL, "pool", total),), tuple(waiting),
    )  # fmt: skip


def _gpu(limit: Limit) -> dict[uuid.UUID, dict[str, Limit]]:
    return {POOL: {"gpu_millis": limit}}


def _gangs(chance: random.Random) -> list[tuple[GangAsk, int]]:
    """About 90 asks with how often each comes."""
    found: dict[GangAsk, int] = {}
    while len(found) < 90:
        gpu = chance.choices((0, 250, 500, 1000, 2000, 4000, 8000), (10, 10, 10, 45, 10, 7, 8))[0]
        tasks = chance.choice((1, 1, 1, 2, 4, 8)) if gpu >= WHOLE_MILLIS else 1
        cpu = chance.choice((100, 1000, 4000, 8000)) if gpu < WHOLE_MILLIS else gpu * chance.choice((2, 4, 8, 11))
        models = frozenset(chance.sample(MODELS, 1)) if chance.random() < 0.15 and gpu else frozenset()
        ask = TaskAsk(cpu, chance.choice((1, 4, 16, 48)) * GIB, gpu, models)
        gang = GangAsk((RoleAsk("worker", ask, tasks, tasks),))
        found.setdefault(gang, chance.randrange(1, 40) if tasks == 1 else chance.randrange(1, 6))
    return list(found.items())


# --- P5 ---------------------------------------------------------------------------------------------------------------


def _reclaims(bench: Bench, nodes: int, seeds: Sequence[int]) -> None:
    took, lost, evicted = [], [], []
    for seed in seeds:
        bench.progress(f"{nodes} full nodes, seed {seed}")
        core, claimant = _full(random.Random(f"{seed} {nodes}"), nodes)
        gc.collect()
        began = time.perf_counter()
        core.submit(claimant)
        decisions = core.decide(200_000)
        took.append(time.perf_counter() - began)
        victims = [decision for decision in decisions if isinstance(decision, Evict)]
        evicted.append(len(victims))
        lost.append(sum(victim.cost for victim in victims) / WHOLE_MILLIS)
    accept, aim = next(((most, best) for many, most, best in RECLAIM if many == nodes), (None, None))
    note = f"victims {evicted}, GPU-seconds lost {[round(seconds) for seconds in lost]}"
    bench.figure(f"reclaim-64-of-{nodes}-nodes", took, "s", accept=accept, aim=aim, less_is_better=True, note=note)


def _full(chance: random.Random, nodes: int) -> tuple[Core, JobAsk]:
    machines = Machines(
        [Machine(f"node-{number:05}", 0, 96_000, 512 * GIB, 8) for number in range(nodes)],
        {0: PoolRules(policy="pack", runners_up=0)},
    )
    total = Resources(nodes * 96_000, nodes * 512 * GIB, nodes * 8 * WHOLE_MILLIS)
    root = LimitedQueue(uuid.UUID(int=2), None, "root")
    queues = [
        root,
        LimitedQueue(uuid.UUID(int=3), root.id, "borrower", _gpu(Limit(deserved=total.gpu_millis // 2))),
        LimitedQueue(uuid.UUID(int=4), root.id, "owner", _gpu(Limit(deserved=total.gpu_millis // 2))),
    ]
    shares = Shares(queues, [Capacity(POOL, "pool", total)])
    core = Core(machines, shares, Policy())
    gangs = {
        gpus: GangAsk((RoleAsk("worker", TaskAsk(gpus * 4000, gpus * 16 * GIB, gpus * 1000), 1, 1),)) for gpus in (1, 2, 4, 8)
    }
    left, number = nodes * 8, 0
    while left:
        gpus = min(chance.choice((1, 1, 2, 4, 8)), 1 << (left.bit_length() - 1))
        left -= gpus
        core.submit(
            JobAsk(f"lent-{number:06}", 1, gangs[gpus], (0,), number, checkpoint_seconds=chance.choice((0, 600, 1800, 3600)))
        )
        number += 1
        if number % 64 == 0 or not left:
            core.decide(number)
    claimant = GangAsk((RoleAsk("worker", TaskAsk(32_000, 128 * GIB, 8000), 8, 8),))
    return core, JobAsk("owner", 2, claimant, (0,), 200_000)
