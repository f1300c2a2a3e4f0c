"""P8: what tenants wait when they share one pool, against each with its own nodes, on the jobs of Philly.

The input are the jobs of Microsoft's cluster "Philly" and how many nodes each of its virtual clusters had. A part of these nodes
is taken (`--nodes-share`), for every tenant the same. The jobs go through the scheduler's own core on a simulated clock
(`jobs/scheduling/replay/run.py`), with nodes of 8 GPUs, gangs, placement, borrowing and reclaim:

- *shared*: one pool; each tenant deserves as many GPUs as it has nodes for, lent while idle and taken back on demand; of those
  who borrow, one with a smaller part takes from one with a larger (`--no-rebalancing`); small gangs migrate for larger ones
  (`--migrations`);
- *private*: the same core once per tenant on its nodes alone, strictly in order of submission, which is the reference;
- *pool*: one pool without tenants, strictly in order;
- *count-only*: one pool without tenants in which GPUs are counted and have no place, and a job that fits may pass those that do
  not.

`--resample SEED` gives each tenant the same moments of submission with shapes (duration and GPUs) drawn with replacement from its
own jobs; `--stretch` warps time. So the figures do not hang on the one order in which Philly's jobs came.

Wait = finish - submission - duration, so work that is lost to an eviction counts as waiting. Jobs of virtual clusters that have
no nodes are left out. A gang of more than 8 GPUs needs whole nodes, or else as many equal parts as it takes. A job can be resumed
from checkpoints, `--checkpoint` seconds apart; who has to leave holds its machines for `--grace` seconds more and saves nothing
in them. Jain's index is over (held / owed) in windows of 10 minutes, of tenants with unmet demand only. Owed is what each would
get if all GPUs were divided by what tenants deserve, no one getting more than it has use for (max-min), at that moment.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bench.drawing import bars
from bench.frame import Bench, BenchError
from bench.predicted import Predicted
from bench.traces import rows
from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.figures import jain
from jobs.scheduling.replay.run import Arrival, ReplayOutcome
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import Shares

WHERE = (
    "P8 needs the folder with philly_jobs.csv (or .csv.xz: timestamp, duration, num_gpus, cluster) and philly_vc_nodes.csv"
    " (vc, node num): --traces DIR. The first derives from philly-traces of msr-fiddle on GitHub (CC BY 4.0) and stands as"
    " sia-simulator/traces/philly.csv in artifacts of siasosp23, the second in HeliosArtifact of S-Lab-System-Group."
)
NODE_GPUS = 8
POOL = uuid.UUID(int=1)


@dataclass(frozen=True)
class Entry:
    """One line of the trace."""

    number: int
    tenant: str
    submitted_at: int
    duration: int
    gpus: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traces", type=Path, help="folder of the jobs and nodes")
    parser.add_argument("--nodes-share", type=float, default=0.25, help="part of each tenant's nodes; default 0.25")
    parser.add_argument("--jobs", type=int, default=0, help="only the first so many jobs; default all")
    parser.add_argument("--stretch", type=float, default=1.0, help="multiply the time between submissions; default 1")
    parser.add_argument("--resample", type=int, help="draw the shapes of each tenant anew, with this seed; default as they came")
    parser.add_argument("--checkpoint", type=int, default=1800, help="seconds between checkpoints; default 1800, 0 for none")
    parser.add_argument("--grace", type=int, default=30, help="seconds from the signal to the end; default 30")
    parser.add_argument("--least-runtime", type=int, default=300, help="seconds before an eviction; default 300")
    parser.add_argument(
        "--starvation-guard", type=int, default=86_400, help="seconds for which others may pass a job; default a day"
    )
    parser.add_argument("--migrations", type=int, default=4, help="small gangs that migrate for one gang; default 4, 0 for none")
    parser.add_argument("--no-rebalancing", action="store_true", help="nothing is taken from those who borrow a larger part")
    parser.add_argument("--no-pool", action="store_true", help="leave out the run of one pool without tenants")


def run(options: argparse.Namespace, bench: Bench) -> None:
    if options.traces is None:
        raise BenchError(WHERE)
    nodes = nodes_of(options)
    entries = entries_of(options, nodes)
    if options.resample is not None:
        entries = resampled(entries, options.resample)
    bench.say(f"{len(entries)} jobs of {len(nodes)} tenants on {sum(nodes.values()) * NODE_GPUS} GPUs")
    private: dict[str, list[int]] = {}
    for tenant, count in sorted(nodes.items()):
        bench.progress(f"private: {tenant}")
        mine = [entry for entry in entries if entry.tenant == tenant]
        found = _replay(mine, {tenant: count}, options, Policy(in_order=True, reclaims=False, preempts=False, backfill_depth=0))
        private[tenant] = [stay.wait for stay in found.stays.values()]
    pool: list[int] = []
    if not options.no_pool:
        bench.progress("one pool, in order")
        alike = [Entry(entry.number, "all", entry.submitted_at, entry.duration, entry.gpus) for entry in entries]
        together = _replay(
            alike, {"all": sum(nodes.values())}, options, Policy(in_order=True, reclaims=False, preempts=False, backfill_depth=0)
        )
        pool = [stay.wait for stay in together.stays.values()]
    bench.progress("shared")
    began = time.process_time()
    policy = Policy(
        least_runtime_seconds=options.least_runtime,
        starvation_guard_seconds=options.starvation_guard,
        rebalances=not options.no_rebalancing,
        migrations=options.migrations,
    )
    shared = _replay(entries, nodes, options, policy)
    _report(bench, shared, private, pool, nodes, time.process_time() - began, as_it_came=_is_as_it_came(options))
    bound = statistics.fmean(count_only(entries, sum(nodes.values()) * NODE_GPUS))
    note = f"{_mean(shared, None):.0f} s to {bound:.0f} s"
    bench.figure("mean-wait-to-count-only", _mean(shared, None) / max(1.0, bound), "x", accept=2, less_is_better=True, note=note)
    picture = options.out / "P8-tenancy.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    waits = {
        "private": statistics.fmean(w for tenant_waits in private.values() for w in tenant_waits),
        "berth, shared": _mean(shared, None),
    }
    if pool:
        waits["one pool, in order"] = statistics.fmean(pool)
    picture.write_text(bars("Mean wait on Philly at a part of the nodes", "s", {name: [wait] for name, wait in waits.items()}))
    bench.say(f"drawn: {picture}")


def _is_as_it_came(options: argparse.Namespace) -> bool:
    """Whether the series is the one that the levels of the mean wait are for."""
    return options.resample is None and options.stretch == 1


def _report(
    bench: Bench,
    shared: ReplayOutcome,
    private: Mapping[str, Sequence[int]],
    pool: Sequence[int],
    nodes: Mapping[str, int],
    seconds: float,
    *,
    as_it_came: bool,
) -> None:
    everybody = [wait for waits in private.values() for wait in waits]
    if any(stay.finished_at < 0 for stay in shared.stays.values()) or len(shared.stays) != len(everybody):
        raise BenchError("a job never ended")
    peers: dict[str, float] = {"private": statistics.fmean(everybody)}
    if pool:
        peers["one-pool-in-order"] = statistics.fmean(pool)
    accept, aim = (1500, 1000) if as_it_came else (None, None)  # Others are held to twice the wait of counting alone.
    bench.figure("mean-wait", _mean(shared, None), "s", accept=accept, aim=aim, less_is_better=True, peers=peers)
    worst = 0.0
    table = {}
    for tenant, queue in zip(sorted(nodes), range(1, len(nodes) + 1), strict=True):
        mine, alone = _mean(shared, queue), statistics.fmean(private[tenant]) if private[tenant] else 0.0
        anomaly = max(0.0, (mine - alone) / max(alone, 1.0))
        table[tenant] = {
            "nodes": nodes[tenant],
            "jobs": len(private[tenant]),
            "shared": mine,
            "private": alone,
            "anomaly": anomaly,
        }
        bench.say(f"{tenant}: {nodes[tenant]} nodes, {len(private[tenant])} jobs, wait {mine:.0f} s, alone {alone:.0f} s")
        worst = max(worst, anomaly)
    bench.figure("worst-tenant-above-private", worst * 100, "%", accept=10, aim=0, less_is_better=True)
    bench.figure("lost-work", shared.lost / max(1, shared.useful) * 100, "%", accept=1, aim=0.5, less_is_better=True)
    raw, at_most = _jain(shared, nodes)
    bench.figure(
        "jain", raw, "", accept=0.97, aim=0.99, note=f"mean of windows; {at_most:.4f} where more than owed counts as owed"
    )
    claims = sorted(shared.reclaim_seconds) or [0]
    note = f"of {len(claims)}; greatest {claims[-1]} s"
    bench.figure("claim-to-start-p99", claims[len(claims) * 99 // 100], "s", less_is_better=True, note=note)
    bench.figure("pass", seconds / max(1, shared.passes) * 1000, "ms", less_is_better=True, note=f"{shared.passes} passes")
    bench.record("tenants", table)
    bench.record("evictions", shared.evictions)
    bench.record("migrations", shared.migrations)


def _jain(shared: ReplayOutcome, nodes: Mapping[str, int]) -> tuple[float, float]:
    weight = {queue: nodes[tenant] for queue, tenant in enumerate(sorted(nodes), start=1)}
    return jain(shared.windows, weight, sum(nodes.values()) * NODE_GPUS * WHOLE_MILLIS)


def _mean(outcome: ReplayOutcome, queue: int | None) -> float:
    waits = [stay.wait for stay in outcome.stays.values() if queue is None or stay.queue == queue]
    return statistics.fmean(waits) if waits else 0.0


def nodes_of(options: argparse.Namespace) -> dict[str, int]:
    """The part of its nodes that each tenant has."""
    given = rows(options.traces, "philly_vc_nodes", WHERE)
    return {row["vc"]: max(1, int(int(row["node num"]) * options.nodes_share)) for row in given}


def scene(
    entries: Sequence[Entry], nodes: Mapping[str, int], checkpoint: int, policy: Policy
) -> tuple[State, list[Arrival], dict[int, str]]:
    """The state before the first of these jobs, the jobs, and the tenant of each queue."""
    names = sorted(nodes)
    total = sum(nodes.values())
    queues = [
        LimitedQueue(
            uuid.UUID(int=100 + number), None if number == 0 else uuid.UUID(int=100), name,
            {} if number == 0 else {POOL: {"gpu_millis": _limit(nodes[name])}},
        )
        for number, name in enumerate(["", *names])
    ]  # fmt: skip
    state = State(
        at=0,
        pools=(Pool(POOL, "pool", PoolRules(policy="pack", runners_up=0)),),
        machines=tuple(Machine(f"node{number:04}", 0, 64_000, 1 << 40, NODE_GPUS) for number in range(total)),
        queues=tuple(queues),
        capacities=(Capacity(POOL, "pool", Resources(total * 64_000, total << 40, total * NODE_GPUS * WHOLE_MILLIS)),),
        policy=policy,
    )
    shares = Shares(state.queues, state.capacities)
    number_of = {name: shares.queue_at[uuid.UUID(int=101 + place)] for place, name in enumerate(names)}
    gangs: dict[int, GangAsk] = {}
    arrivals = [
        Arrival(
            JobAsk(
                f"{entry.number:06}", number_of[entry.tenant], gangs.setdefault(entry.gpus, _gang(entry.gpus)), (0,),
                entry.submitted_at, checkpoint_seconds=checkpoint,
            ),
            entry.duration,
        )
        for entry in entries
    ]  # fmt: skip
    return state, arrivals, {number: name for name, number in number_of.items()}


def _replay(entries: Sequence[Entry], nodes: Mapping[str, int], options: argparse.Namespace, policy: Policy) -> ReplayOutcome:
    state, arrivals, tenants = scene(entries, nodes, options.checkpoint, policy)
    known = {
        arrival.job.id: (tenants[arrival.job.queue], tenants[arrival.job.queue], str(arrival.job.gang), None)
        for arrival in arrivals
    }
    return Predicted(build(state), arrivals, known, grace_seconds=options.grace).run()


def _limit(nodes: int) -> Limit:
    gpus = nodes * NODE_GPUS * WHOLE_MILLIS
    return Limit(guarantee=0, deserved=gpus, weight=nodes)


def _gang(gpus: int) -> GangAsk:
    """One task on one node, or equal tasks of as many GPUs as divide it."""
    each = gpus if gpus <= NODE_GPUS else next(size for size in range(NODE_GPUS, 0, -1) if gpus % size == 0)
    return GangAsk((RoleAsk("worker", TaskAsk(0, 0, each * WHOLE_MILLIS), gpus // each, gpus // each),))


def entries_of(options: argparse.Namespace, nodes: Mapping[str, int]) -> list[Entry]:
    lines = sorted(
        (row for row in rows(options.traces, "philly_jobs", WHERE) if row["timestamp"] and row["cluster"] in nodes),
        key=lambda row: (row["timestamp"], row["cluster"], row["duration"], row["num_gpus"]),
    )
    entries = []
    began = _seconds(lines[0]["timestamp"]) if lines else 0
    for number, row in enumerate(lines[: options.jobs or None]):
        at = int((_seconds(row["timestamp"]) - began) * options.stretch)
        gpus = int(row["num_gpus"])
        if gpus <= nodes[row["cluster"]] * NODE_GPUS:  # What its tenant could never run alone has no reference.
            entries.append(Entry(number, row["cluster"], at, max(1, round(float(row["duration"]))), gpus))
    return entries


def resampled(entries: Sequence[Entry], seed: int) -> list[Entry]:
    """The same moments with shapes drawn with replacement from the jobs of the same tenant."""
    chance = random.Random(f"{seed} tenancy")
    shapes: dict[str, list[tuple[int, int]]] = {}
    for entry in entries:
        shapes.setdefault(entry.tenant, []).append((entry.duration, entry.gpus))
    found = []
    for entry in entries:
        duration, gpus = chance.choice(shapes[entry.tenant])
        found.append(replace(entry, duration=duration, gpus=gpus))
    return found


def count_only(entries: Sequence[Entry], gpus: int) -> list[int]:
    """What each waits in one pool of so many GPUs that have no place, in order of submission, where a job that fits passes those
    that do not. Nothing is evicted."""
    waiting: dict[int, deque[Entry]] = {}  # By GPUs: of one size the first that came is the first that starts.
    ends: list[tuple[int, int]] = []
    waits, free, coming = [], gpus, deque(sorted(entries, key=lambda entry: (entry.submitted_at, entry.number)))
    while coming or any(waiting.values()):
        now = min(
            moment for moment in (ends[0][0] if ends else None, coming[0].submitted_at if coming else None) if moment is not None
        )
        while ends and ends[0][0] <= now:
            free += heapq.heappop(ends)[1]
        while coming and coming[0].submitted_at <= now:
            waiting.setdefault(coming[0].gpus, deque()).append(coming.popleft())
        while fitting := [line[0] for size, line in waiting.items() if line and size <= free]:
            entry = min(fitting, key=lambda entry: (entry.submitted_at, entry.number))
            waiting[entry.gpus].popleft()
            free -= entry.gpus
            waits.append(now - entry.submitted_at)
            heapq.heappush(ends, (now + entry.duration, entry.gpus))
    return waits


def _seconds(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp())
