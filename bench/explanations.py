"""WHY: whether everybody who waits is told why, whether what is suggested is true, and how long an answer takes.

Jobs arrive on a simulated clock at the scheduler's own core (`jobs/scheduling/replay/run.py`): some that are made up from a
seed, on nodes of 4 and 8 GPUs of two models, for queues with guarantees and ceilings; and with `--traces` the jobs of Philly,
as P8 takes them. At `--moments` of the replay everybody who waits is asked for the reason, and some (`--asked`) are explained
in full (`jobs/scheduling/questions/explain.py`, `suggest.py`). Every change that is suggested is made on a copy of the state,
of which a core made anew decides: it is true if that core starts the job, or clears the room for it that was told.

With `--scenes`, everybody who waits in seeded scenes with caps, labels, taints, cordons, ceilings and wide gangs is asked as well
(`bench/waiting.py`), and each change is made on the core that has worked so far, too.

*covered*: of those who wait, who has a reason. *helped*: of those explained who are not being given room already, who is told a
change. *true*: of the changes, which came true. *live*: of these of the scenes, which came
true on the core at work. *answer*: the CPU time of one explanation with its suggestions, and the size of
the state. The largest, 10,000 waiting jobs on 1,000 nodes, is that of P3.
"""

from __future__ import annotations

import argparse
import random
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import passes, tenancy, waiting
from bench.frame import Bench
from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build, export
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Settled, explain
from jobs.scheduling.questions.suggest import outcome, suggest
from jobs.scheduling.replay.run import Arrival, Replay
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

POOL = uuid.UUID(int=1)
GIB = 1 << 30
HELD_BACK = 0.03  # Of the made-up jobs, which somebody has put on hold.
LARGE = (10_000, 1_000)  # Waiting jobs, nodes.


@dataclass
class Seen:
    """What was found at all moments."""

    waiting: int = 0
    covered: int = 0
    explained: int = 0
    being_given_room: int = 0
    helped: int = 0
    changes: int = 0
    came_true: int = 0
    seconds: list[float] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traces", type=Path, help="folder of the jobs and nodes of Philly; without it, made-up jobs only")
    parser.add_argument("--arrivals", type=int, default=3000, help="how many jobs of each source; default 3000")
    parser.add_argument("--moments", type=int, default=40, help="how many moments of a replay; default 40")
    parser.add_argument("--asked", type=int, default=5, help="how many are explained at a moment; default 5")
    parser.add_argument("--answers", type=int, default=10, help="how many are explained in the large state; default 10")
    parser.add_argument("--scenes", type=int, default=40, help="how many scenes with every cause of waiting; default 40")
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace, bench: Bench) -> None:
    start, arrivals = _made_up(random.Random(f"{options.seed} explanations"), options.arrivals)
    _replayed(bench, "made-up", start, arrivals, options)
    if options.traces is None:
        bench.say("Philly needs a folder: --traces DIR (P8 says of what)")
    else:
        _replayed(bench, "philly", *_philly(options), options)
    if options.scenes:
        _scenes(bench, options)
    if options.answers:
        _large(bench, options)


def _replayed(bench: Bench, name: str, start: State, arrivals: Sequence[Arrival], options: argparse.Namespace) -> None:
    """One replay, and what was found at its moments."""
    chance, found = random.Random(f"{options.seed} {name}"), Seen()
    every = max(1, 2 * len(arrivals) // options.moments)  # About two passes a job: it comes, it ends.
    passed = 0

    def look(core: Core, now: int) -> None:
        nonlocal passed
        passed += 1
        if passed % every == 0:
            bench.progress(f"{name}: pass {passed}")
            _ask(found, core, export(core, start), chance, options.asked)

    replay = Replay(build(start), arrivals, on_pass=look)
    replay.run()
    bench.figure(
        f"covered-{name}",
        _part(found.covered, found.waiting),
        "%",
        accept=100,
        note=f"of {found.waiting} waits at {options.moments} moments",
    )
    able = found.explained - found.being_given_room
    bench.figure(f"helped-{name}", _part(found.helped, able), "%", accept=90, aim=100, note=f"of {able} explained")
    bench.figure(f"true-{name}", _part(found.came_true, found.changes), "%", accept=100, note=f"of {found.changes} changes")
    _answers(bench, name, found.seconds)
    bench.record(name, {"codes": dict(found.codes), "kinds": dict(found.kinds)})


def _scenes(bench: Bench, options: argparse.Namespace) -> None:
    """Everybody who waits in scenes with every cause of waiting, and each change on the core at work."""
    found = waiting.Told()
    for number in range(options.scenes):
        bench.progress(f"scene {number}")
        for moment in waiting.moments_of(1000 * options.seed + number):
            waiting.ask(moment, found)
    asked, changes = found.waiting.total(), found.changes.total()
    note = f"of {asked} waits in {options.scenes} scenes"
    bench.figure("helped-scenes", _part(found.told.total(), asked), "%", accept=95, aim=100, note=note)
    bench.figure("true-scenes", _part(changes - found.untrue.total(), changes), "%", accept=100, note=f"of {changes} changes")
    live = _part(changes - found.untrue_live.total(), changes)
    bench.figure("live-scenes", live, "%", accept=99.5, aim=100, note=f"of {changes} changes")
    _answers(bench, "scenes", found.seconds)
    bench.record(
        "scenes",
        {
            "causes": {cause: {"waits": had, "told": told} for cause, (had, told) in found.by_cause().items()},
            "kinds": dict(found.changes),
            "untrue": dict(+found.untrue),
            "untrue_live": dict(+found.untrue_live),
        },
    )


def _answers(bench: Bench, name: str, seconds: Sequence[float]) -> None:
    order = sorted(seconds) or [0.0]
    note = f"p99 {order[len(order) * 99 // 100] * 1000:.0f} ms"
    bench.figure(f"answer-{name}", order[len(order) // 2] * 1000, "ms", less_is_better=True, note=note)


def _part(some: int, of: int) -> float:
    """In hundredths; where there is none, nothing is amiss."""
    return 100 * some / of if of else 100.0


def _ask(found: Seen, core: Core, state: State, chance: random.Random, asked: int) -> None:
    """Everybody's reason, and some in full."""
    names = sorted(job.id for job in state.waiting)
    found.waiting += len(names)
    found.covered += sum(core.why(name) is not None for name in names)
    for job_id in chance.sample(names, min(asked, len(names))):
        began = time.process_time()
        settled = Settled(state)
        explanation = explain(settled, job_id)
        assert explanation is not None, "who waits cannot be explained"
        suggestions = suggest(settled, explanation)
        found.seconds.append(time.process_time() - began)
        if explanation.starts:
            continue
        found.explained += 1
        found.codes.update(condition.reason.code for condition in explanation.conditions)
        found.kinds.update(suggestion.kind for suggestion in suggestions)
        found.being_given_room += any(condition.reason.code == "claim" for condition in explanation.conditions)
        found.helped += bool(suggestions)
        found.changes += len(suggestions)
        found.came_true += sum(
            outcome(settled.state, suggestion.changes, job_id) == suggestion.clears for suggestion in suggestions
        )


def _large(bench: Bench, options: argparse.Namespace) -> None:
    """One answer in the state of P3."""
    jobs, nodes = LARGE
    chance = random.Random(f"{options.seed} {jobs} {nodes}")
    state = Settled(passes.large_state(chance, jobs, nodes)).state
    took, parts = [], []
    for job in chance.sample(state.waiting, options.answers):
        bench.progress("answers in the large state")
        began = time.process_time()
        settled = Settled(state)
        explanation = explain(settled, job.id)
        parts.append(time.process_time() - began)
        assert explanation is not None
        suggest(settled, explanation)
        took.append(time.process_time() - began)
    order, first = sorted(took), sorted(parts)
    size = f"{len(state.waiting)} waiting, {len(state.running)} running, {nodes} nodes"
    note = f"greatest {order[-1]:.1f} s; without suggestions {first[len(first) // 2]:.2f} s; {size}"
    bench.figure("answer-large", order[len(order) // 2], "s", accept=8, aim=1, less_is_better=True, note=note)


# --- Where jobs come from -----------------------------------------------------------------------------------------------


def _made_up(chance: random.Random, count: int) -> tuple[State, list[Arrival]]:
    sizes = [chance.choice((4, 8)) for _ in range(24)]
    machines = tuple(
        Machine(f"node-{n:02}", 0, gpus * 8000, gpus * 64 * GIB, gpus, chance.choice("AB")) for n, gpus in enumerate(sizes)
    )
    gpus = sum(sizes) * WHOLE_MILLIS
    limits = (
        Limit(guarantee=gpus // 10 // 1000 * 1000, deserved=gpus // 4 // 1000 * 1000),
        Limit(deserved=gpus // 4 // 1000 * 1000, ceiling=gpus // 2 // 1000 * 1000),
        Limit(ceiling=gpus // 8 // 1000 * 1000),
        Limit(weight=2),
    )
    queues = _tree({f"queue-{number}": limit for number, limit in enumerate(limits)})
    total = Resources(sum(sizes) * 8000, sum(sizes) * 64 * GIB, gpus)
    state = State(0, (Pool(POOL, "pool", PoolRules("pack")),), machines, queues, (Capacity(POOL, "pool", total),))
    arrivals, at = [], 0
    for number in range(count):
        at += round(chance.expovariate(1 / 55))
        job = JobAsk(
            f"{number:06}", chance.randrange(1, 5), _gang(chance), (0,), at, chance.choice((100, 500, 500, 900)),
            max_runtime=chance.choice((None, 7200)), withheld=WaitReason("held") if chance.random() < HELD_BACK else None,
            checkpoint_seconds=1800,
        )  # fmt: skip
        if job.withheld is None or number % 2:
            arrivals.append(Arrival(job, round(chance.lognormvariate(7.5, 1.2)) + 1))
    return state, arrivals


def _tree(limits: Mapping[str, Limit]) -> tuple[LimitedQueue, ...]:
    """Root and these below it; the numbers of queues follow their names from 1."""
    root = LimitedQueue(uuid.UUID(int=2), None, "root")
    below = sorted(limits.items())
    return (
        root,
        *(
            LimitedQueue(uuid.UUID(int=10 + n), root.id, name, {POOL: {"gpu_millis": limit}})
            for n, (name, limit) in enumerate(below)
        ),
    )


def _gang(chance: random.Random) -> GangAsk:
    each = chance.choices((1, 2, 4, 8), (6, 3, 2, 1))[0]
    tasks = chance.choices((1, 2, 4), (6, 2, 1))[0]
    models = frozenset(chance.sample("AB", 1)) if chance.random() < 0.2 else frozenset[str]()
    ask = TaskAsk(each * chance.choice((1000, 8000)), each * chance.choice((8, 64)) * GIB, each * WHOLE_MILLIS, models)
    together = "pack" if chance.random() < 0.3 else ""
    return GangAsk((RoleAsk("worker", ask, tasks, tasks),), together)


def _philly(options: argparse.Namespace) -> tuple[State, list[Arrival]]:
    """As P8: each tenant deserves a quarter of its nodes, of one pool."""
    given = argparse.Namespace(traces=options.traces, jobs=options.arrivals, stretch=1.0, nodes_share=0.25)
    nodes = tenancy.nodes_of(given)
    state, arrivals, _ = tenancy.scene(tenancy.entries_of(given, nodes), nodes, 1800, Policy())
    return state, arrivals
