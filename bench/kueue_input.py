"""P6: Kueue's own test input: very many short workloads in cohorts of queues that lend to one another.

The input is that of Kueue's scalability test (kubernetes-sigs/kueue at ff69552e, test/performance/scheduler/configs). Every
queue has a nominal quota of 20 units and may borrow 100; what is lent is taken back by anybody of the cohort who is below the
nominal quota; higher priority takes from lower in its own queue. *Baseline*: 5 cohorts of 6 queues, 15,000 workloads; *large*: 10
cohorts of 100, 50,000. A workload takes 1, 5 or 20 units for 150 ms to a second, and whoever is evicted begins anew. Here a unit
is a core, a cohort a queue that deserves what its queues do, and a queue's ceiling is what it deserves and may borrow.

`--through core` (the default) runs the scheduler's core in real time: workloads come when they are due by the clock, passes take
as long as they take, and a run ends when its time is over. It has no API, database or engine in it, so it says what the scheduler
alone can do and stands beside nobody's figure. `--through api` is the figure that counts: the whole platform, with jobs in
batches by its API. As in Kueue's own test the runs are simulated: the engine starts nothing and says after the time that they
have ended (`bench/simulated_server.py`). With `--runs real` each is a `sleep` in the local engine.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.drawing import curves
from bench.frame import Bench, BenchError
from bench.load import drive, request
from bench.platforms import RunningPlatform, running_platform
from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.state.decisions import Admit, Evict
from jobs.scheduling.core.state.work import JobAsk
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import Shares

POOL = uuid.UUID(int=1)
UNIT = 1000  # Thousandths of a core.
NOMINAL, BORROWED = 20, 100
MEMORY = 8 << 20
SLICE_MILLIS = 5000  # Through the API, what is due within so long comes as one batch for each queue and class.
STALL_SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Class:
    """Equal workloads of one queue: so many units for so long, one every so often."""

    name: str
    count: int
    units: int
    runs_millis: int
    priority: int
    every_millis: int


@dataclass(frozen=True)
class Input:
    """`kueue` and `ideal`: seconds that Kueue needs, and that the capacity alone allows."""

    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    accept: float
    aim: float
    kueue: float
    ideal: float


INPUTS = {
    "baseline": Input(
        5, 6,
        (Class("small", 350, 1, 200, 50, 100), Class("medium", 100, 5, 500, 100, 500), Class("large", 50, 20, 1000, 200, 1200)),
        180.0, 80.0, 351.0, 66.1,
    ),
    "large": Input(
        10, 100,
        (Class("small", 35, 1, 150, 50, 60), Class("medium", 11, 5, 350, 100, 300), Class("large", 4, 20, 700, 200, 700)),
        400.0, 60.0, 1179.0, 4.1,
    ),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--inputs", default="baseline,large", help="which of Kueue's inputs; default both")
    parser.add_argument("--through", choices=["core", "api"], default="core", help="the core alone, or the whole platform")
    parser.add_argument("--runs", choices=["simulated", "real"], default="simulated", help="through the API: what runs is")
    parser.add_argument("--part", type=float, default=1.0, help="only this part of the workloads of each class; default all")
    parser.add_argument(
        "--profile", choices=["embedded", "production"], default="embedded", help="Berth's profile, through its API"
    )


def run(options: argparse.Namespace, bench: Bench) -> None:
    drawn: dict[str, list[float]] = {}
    for name in options.inputs.split(","):
        if name not in INPUTS:
            raise BenchError(f"there is no input {name}; there are {', '.join(INPUTS)}")
        given = _part(INPUTS[name], options.part)
        if options.through == "core":
            drawn[name] = _through_core(bench, name, given, is_whole=options.part == 1.0)
        else:
            _through_api(bench, name, given, options)
    if drawn:
        picture = options.out / "P6-kueue-input.svg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_text(curves("Workloads of Kueue's input that have ended", "seconds", "% ended", drawn))
        bench.say(f"drawn: {picture}")


def _part(given: Input, part: float) -> Input:
    classes = tuple(
        Class(
            workload.name,
            max(1, round(workload.count * part)),
            workload.units,
            workload.runs_millis,
            workload.priority,
            workload.every_millis,
        )
        for workload in given.classes
    )
    return Input(given.cohorts, given.queues, classes, given.accept, given.aim, given.kueue, given.ideal)


# --- The core alone ---------------------------------------------------------------------------------------------------


def _through_core(bench: Bench, name: str, given: Input, *, is_whole: bool) -> list[float]:
    core, queues = _cluster(given)
    arrivals = _arrivals(given, queues)
    total, ended, evictions, passes, busy = len(arrivals), 0, 0, 0, 0.0
    runs = {job.id: millis for _, job, millis in arrivals}
    jobs = {job.id: job for _, job, _ in arrivals}
    ends: list[tuple[int, str, int]] = []
    turn = dict.fromkeys(runs, 0)
    curve: list[float] = []
    longest, at = 0.0, 0
    began = time.monotonic()
    while ended < total:
        now = int((time.monotonic() - began) * 1000)
        while at < total and arrivals[at][0] <= now:
            core.submit(arrivals[at][1])
            at += 1
        while ends and ends[0][0] <= now:
            _, job_id, mine = heapq.heappop(ends)
            if turn[job_id] == mine:
                core.ended(job_id)
                ended += 1
        pass_began = time.monotonic()
        for decision in core.decide(now):
            if isinstance(decision, Admit):
                heapq.heappush(ends, (now + runs[decision.id], decision.id, turn[decision.id]))
            elif isinstance(decision, Evict):  # Gone at once, and it begins anew.
                turn[decision.id] += 1
                evictions += 1
                core.ended(decision.id)
                core.submit(jobs[decision.id])
        took = time.monotonic() - pass_began
        busy, longest, passes = busy + took, max(longest, took), passes + 1
        while len(curve) < now // 1000:
            curve.append(100 * ended / total)
        bench.progress(f"{name}: {ended} of {total} ended after {now / 1000:.0f} s")
        _wait_for(
            began,
            [moment for moment in (arrivals[at][0] if at < total else None, ends[0][0] if ends else None) if moment is not None],
        )
    seconds = time.monotonic() - began
    each = f"{passes} passes of {1000 * busy / passes:.1f} ms, longest {1000 * longest:.0f} ms"
    note = f"the core alone, {each}, {evictions} evictions"
    bench.figure(f"{name}-core", seconds, "s", less_is_better=True, peers={"ideal": given.ideal} if is_whole else None, note=note)
    bench.figure(f"{name}-core-busy", 100 * busy / seconds, "% of the time", less_is_better=True)
    return [*curve, 100.0]


def _wait_for(began: float, moments: Sequence[int]) -> None:
    """Until something is due; at least a moment, for passes that find nothing to do cost as well."""
    due = min(moments, default=0) / 1000 - (time.monotonic() - began)
    time.sleep(min(max(due, 0.001), 0.1))


def _cluster(given: Input) -> tuple[Core, list[int]]:
    """One machine for each cohort's capacity: Kueue's test has quotas and no nodes."""
    whole = given.queues * NOMINAL * UNIT
    machines = [Machine(f"node-{number:02}", 0, whole, 1 << 50) for number in range(given.cohorts)]
    root = LimitedQueue(uuid.UUID(int=2), None, "root")
    queues = [root]
    for cohort in range(given.cohorts):
        above = LimitedQueue(
            uuid.UUID(int=1000 + cohort), root.id, f"cohort-{cohort:02}", _cores(Limit(deserved=whole, ceiling=whole))
        )
        queues.append(above)
        for number in range(given.queues):
            limit = Limit(deserved=NOMINAL * UNIT, ceiling=min(whole, (NOMINAL + BORROWED) * UNIT))
            name = f"queue-{number:03}"
            queues.append(LimitedQueue(uuid.UUID(int=10_000 + cohort * 1000 + number), above.id, name, _cores(limit)))
    shares = Shares(queues, [Capacity(POOL, "pool", Resources(whole * given.cohorts, given.cohorts << 50, 0))])
    policy = Policy(
        aging_seconds=0, least_runtime_seconds=0, evictions_per_pass=1 << 30, evictions_per_window=1 << 30,
        starvation_guard_seconds=0, history_seconds=1 << 40,
    )  # fmt: skip
    core = Core(Machines(machines, {0: PoolRules("pack", runners_up=0)}), shares, policy)
    return core, [shares.queue_at[queue.id] for queue in queues if queue.name.startswith("queue-")]


def _cores(limit: Limit) -> dict[uuid.UUID, dict[str, Limit]]:
    return {POOL: {"cpu_millis": limit}}


def _arrivals(given: Input, queues: Sequence[int]) -> list[tuple[int, JobAsk, int]]:
    """When, what and for how long; times are milliseconds here, for the core counts in whole ones of whatever they are."""
    gangs = {workload.units: GangAsk((RoleAsk("main", TaskAsk(workload.units * UNIT, 0), 1, 1),)) for workload in given.classes}
    found = []
    for queue in queues:
        for workload in given.classes:
            for number in range(workload.count):
                due = number * workload.every_millis
                job = JobAsk(
                    f"{queue:04}-{workload.name}-{number:03}", queue, gangs[workload.units], (0,), due, workload.priority
                )
                found.append((due, job, workload.runs_millis))
    return sorted(found, key=lambda arrival: (arrival[0], arrival[1].id))


# --- The whole platform -----------------------------------------------------------------------------------------------


def _through_api(bench: Bench, name: str, given: Input, options: argparse.Namespace) -> None:
    whole = given.cohorts * given.queues * NOMINAL
    settings = {
        "BERTH_LOCAL_CPU_MILLIS": str(whole * UNIT),
        "BERTH_LOCAL_MEMORY_BYTES": str(whole * MEMORY),
        "BERTH_LOCAL_ISOLATION": "none",
        "BERTH_SCHEDULER_LEAST_RUNTIME_SECONDS": "0",
    }
    total = given.cohorts * given.queues * sum(workload.count for workload in given.classes)
    server = Path(__file__).with_name("simulated_server.py") if options.runs == "simulated" else None
    if server and options.profile != "embedded":
        raise BenchError("simulated runs are kept in the memory of one process: --profile embedded, or --runs real")
    with running_platform(profile=options.profile, server=server, **settings) as berth:
        queues = _queues(berth, given)
        before = berth.cpu_seconds()
        began = time.monotonic()
        for due, bodies in _slices(berth, given, queues):
            time.sleep(max(0.0, due / 1000 - (time.monotonic() - began)))
            left = iter(bodies)
            outcome = drive(berth.url, lambda client, left=left: next(left, None), clients=2, wanted=201)
            if outcome.errors:
                raise BenchError(f"submissions failed: {dict(outcome.errors)}")
        submitted = time.monotonic() - began
        _drain(berth, bench, name, total)
        seconds = time.monotonic() - began
        used = {role: 1000 * (now - before.get(role, 0.0)) / total for role, now in berth.cpu_seconds().items()}
        evictions = berth.rows("SELECT count(*) FROM jobs_attempt WHERE evicted_for IS NOT NULL")[0][0]
        failed = berth.rows("SELECT count(*) FROM jobs_job WHERE state IN ('failed', 'stopped')")[0][0]
    if failed:
        raise BenchError(f"{failed} of {total} workloads did not succeed")
    levels = (given.accept, given.aim) if options.part == 1.0 else (None, None)
    peers = {"kueue": given.kueue, "ideal": given.ideal} if options.part == 1.0 else None
    note = f"{total} workloads, {options.profile}, {options.runs} runs, submitted within {submitted:.0f} s, {evictions} evictions"
    bench.figure(name, seconds, "s", accept=levels[0], aim=levels[1], less_is_better=True, peers=peers, note=note)
    bench.record(f"{name}-cpu-milliseconds-per-job", used)


def _queues(berth: RunningPlatform, given: Input) -> list[tuple[str, str]]:
    """A tenant for each cohort, below the first one, with its queues; tenant and name of each queue. One tenant alone may not
    have as many as the large input wants."""
    pool = berth.rows("SELECT name FROM clusters_pool")[0][0]
    whole = given.queues * NOMINAL * UNIT
    (top,) = [queue for queue in berth.api("GET", "/queues")["items"] if queue["name"] == berth.tenant]
    berth.api("POST", "/quota/edits", {"changes": [_change(top, pool, deserved=whole * given.cohorts)]})
    names = []
    for cohort in range(given.cohorts):
        tenant = berth.api("POST", "/tenants", {"name": f"cohort-{cohort:02}", "parent": berth.tenant})
        (above,) = berth.api("GET", f"/queues?tenant={tenant['id']}")["items"]
        changes = [_change(above, pool, deserved=whole, ceiling=whole)]
        for number in range(given.queues):
            name = f"queue-{cohort:02}-{number:03}"
            below = berth.api("POST", "/queues", {"tenant": tenant["id"], "name": name, "parent": above["id"]})
            changes.append(_change(below, pool, deserved=NOMINAL * UNIT, ceiling=min(whole, (NOMINAL + BORROWED) * UNIT)))
            names.append((tenant["id"], name))
        berth.api("POST", "/quota/edits", {"changes": changes})
    return names


def _change(queue: dict[str, Any], pool: str, **limits: int) -> dict[str, Any]:
    return {"queue": queue["id"], "pool": pool, "resource": "cpu_millis", **limits}


def _slices(berth: RunningPlatform, given: Input, queues: Sequence[tuple[str, str]]) -> Iterator[tuple[int, list[bytes]]]:
    """What comes within each slice of time, as requests."""
    last = max(workload.count * workload.every_millis for workload in given.classes)
    for begin in range(0, last, SLICE_MILLIS):
        bodies = []
        for tenant, queue in queues:
            for workload in given.classes:
                due = [
                    number for number in range(workload.count) if begin <= number * workload.every_millis < begin + SLICE_MILLIS
                ]
                if due:
                    spec = {
                        "name": workload.name, "queue": queue, "priority": workload.priority,
                        "command": ["sleep", str(workload.runs_millis / 1000)],
                        "resources": {"cpu": workload.units, "memory": workload.units * MEMORY},
                    }  # fmt: skip
                    items = [{"name": f"{workload.name}-{number}"} for number in due]
                    body = json.dumps({"spec": spec, "items": items, "tenant": tenant}).encode()
                    bodies.append(request("POST", "/api/v1/jobs:batch", token=berth.token, body=body))
        yield begin, bodies


def _drain(berth: RunningPlatform, bench: Bench, name: str, total: int) -> None:
    seen, seen_at = 0, time.monotonic()
    while True:
        ended = berth.rows("SELECT count(*) FROM jobs_job WHERE state IN ('succeeded', 'failed', 'stopped')")[0][0]
        if ended >= total:
            return
        if ended > seen:
            seen, seen_at = ended, time.monotonic()
        if time.monotonic() - seen_at > STALL_SECONDS_MAX:
            raise BenchError(f"{total - ended} workloads are left and none has ended for {STALL_SECONDS_MAX:.0f} s")
        bench.progress(f"{name}: {ended} of {total} ended")
        time.sleep(0.2)
