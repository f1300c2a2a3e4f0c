"""P4: how the time of a pass grows: slopes in a plot of logarithms, where 1 is proportional and 0 is not at all.

The clusters, queues and jobs are those of P3 (`bench/passes.py`), made from a seed. *Cold in jobs*: the first pass of a new core,
with more and more jobs that wait for as many nodes as ever. *Cold in nodes*: as many jobs as ever for more and more nodes. *One
change in jobs*: the median of passes after a single change, once everything has settled. The slope is that of the straight line
with the least squares through the medians of the seeds.
"""

from __future__ import annotations

import argparse
import gc
import math
import random
import statistics
import time
from collections.abc import Sequence

from bench.drawing import points
from bench.frame import Bench, BenchError
from bench.passes import busy, settle, single_changes
from jobs.scheduling.core.core import Policy

JOBS, NODES = 10_000, 1_213  # What stays as it is while the other grows.
COLD_AT = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--growing-jobs", default="1000,3000,10000,30000,100000,300000", help="default %(default)s")
    parser.add_argument("--growing-nodes", default="100,300,1000,3000,10000", help="default %(default)s")
    parser.add_argument("--growth-changes", type=int, default=200, help="single changes at each number of jobs; default 200")
    parser.add_argument("--growth-repeat", type=int, default=3, help="seeds at each size; default 3")


def run(options: argparse.Namespace, bench: Bench) -> None:
    seeds = range(1, options.growth_repeat + 1)
    in_jobs: dict[int, float] = {}
    changed: dict[int, float] = {}
    for jobs in _sizes(options.growing_jobs):
        found = [_measure(bench, jobs, NODES, seed, options.growth_changes) for seed in seeds]
        in_jobs[jobs] = statistics.median(cold for cold, _ in found)
        changed[jobs] = statistics.median(change for _, change in found)
        bench.say(f"{jobs} jobs x {NODES} nodes: cold {in_jobs[jobs]:.3f} s, one change {changed[jobs] * 1000:.2f} ms")
    in_nodes: dict[int, float] = {}
    for nodes in _sizes(options.growing_nodes):
        in_nodes[nodes] = statistics.median(_measure(bench, JOBS, nodes, seed, 0)[0] for seed in seeds)
        bench.say(f"{JOBS} jobs x {nodes} nodes: cold {in_nodes[nodes]:.3f} s")
    levels = {"cold-in-jobs": (in_jobs, 1.15, 1.02), "cold-in-nodes": (in_nodes, 1.0, 0.6), "change-in-jobs": (changed, 0.3, 0.1)}
    for name, (measured, accept, aim) in levels.items():
        note = f"from {min(measured)} to {max(measured)}: {min(measured.values()):.3g} to {max(measured.values()):.3g} s"
        bench.figure(f"slope-{name}", slope(measured), "", accept=accept, aim=aim, less_is_better=True, note=note)
        bench.record(name, {str(size): seconds for size, seconds in measured.items()})
    picture = options.out / "P4-growth.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    series = {
        "cold pass, by waiting jobs": in_jobs,
        "cold pass, by nodes": in_nodes,
        "one change, by waiting jobs": changed,
    }
    picture.write_text(points("Time of a pass as it all grows", "waiting jobs, or nodes", "seconds", series))
    bench.say(f"drawn: {picture}")


def slope(measured: dict[int, float]) -> float:
    """How many times longer in powers of how many times more."""
    xs, ys = [math.log(size) for size in measured], [math.log(seconds) for seconds in measured.values()]
    return statistics.linear_regression(xs, ys).slope


def _measure(bench: Bench, jobs: int, nodes: int, seed: int, changes: int) -> tuple[float, float]:
    """Seconds of the cold pass, and of the median pass after one change."""
    bench.progress(f"{jobs} jobs x {nodes} nodes, seed {seed}")
    chance = random.Random(f"{seed} {jobs} {nodes}")
    core, waiting = busy(chance, jobs, nodes, Policy().backfill_depth)
    for job in waiting:
        core.submit(job)
    gc.collect()
    began = time.perf_counter()
    core.decide(COLD_AT)
    cold = time.perf_counter() - began
    if not changes:
        return cold, 0.0
    settle(core)
    each = single_changes(core, chance, waiting, changes)
    return cold, each[len(each) // 2]


def _sizes(text: str) -> Sequence[int]:
    sizes = sorted({int(size) for size in text.split(",")})
    if len(sizes) < 2 or sizes[0] < 1:
        raise BenchError("a slope needs two sizes or more, like 1000,10000")
    return sizes
