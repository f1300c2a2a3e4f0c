"""K2: many jobs of one pod that run at once on simulated nodes: how late Berth knows of an end, and what it all holds and costs.

Jobs are submitted in batches, and their pods run on. The start is from the first submission until all run by Berth's rows. Then
nothing happens for a while, and what that costs is told. Then some pods end at random moments, by changes of their status in the
API server. How late an end is known counts from the request that makes the change until a look at Berth's rows, twenty times a
second, finds the attempt as ended; so it holds the request itself, and up to 50 ms too much. Requests a job are those that start
it, over all jobs, and those from an end until the attempt is forgotten, over the jobs that ended; lists, watches and looks at
logs, which are not a job's own, are told apart.
"""

from __future__ import annotations

import argparse
import json
import random
import time
import uuid
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bench.frame import Bench, BenchError
from bench.kubernetes_nodes import (
    CLUSTER,
    STALL_SECONDS_MAX,
    SimulatedCluster,
    berth_on,
    cpu,
    memory,
    shown,
    simulated_cluster,
    spent,
    wait_for,
)
from bench.load import drive, request
from bench.platforms import RunningPlatform
from clusters.engines.kubernetes import names

BATCH_ITEMS = 5_000
ENDERS = 8  # Threads that end pods.
LOOK_SECONDS = 0.05
WARM_JOBS = 20
QUIET_SECONDS_MIN = 10.0
SEED = 1
SPEC: dict[str, Any] = {"name": "runs-on", "cluster": CLUSTER, "command": ["true"], "resources": {"cpu": 1, "memory": "64Mi"}}
ALL_RUN = "SELECT count(*) FROM jobs_attempt WHERE state = 'running'"
FORGOTTEN = "SELECT count(*) FROM jobs_attempt WHERE state = 'ended' AND forgotten"
NOT_A_JOBS = ("list", "watch", "get pods/log")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pods", type=int, default=20_000, help="jobs of one pod that run at once; default 20000")
    parser.add_argument("--nodes", type=int, default=1_000, help="simulated nodes of 64 cores and 110 pods; default 1000")
    parser.add_argument("--ends", type=int, default=500, help="pods that end while the others run; default 500")
    parser.add_argument("--seconds", type=float, default=60.0, help="of quiet, and within which these pods end; default 60")
    parser.add_argument("--pod-profile", choices=["embedded", "production"], default="production", help="Berth's profile")


def run(options: argparse.Namespace, bench: Bench) -> None:
    ends = min(options.ends, options.pods)
    with simulated_cluster(nodes=options.nodes, runs_on=True) as cluster:
        cluster.print_line("O", 0, b"")
        cluster.print_line("E", 0, b"")
        with berth_on(cluster, profile=options.pod_profile, nodes=options.nodes) as berth:
            _start(cluster, berth, bench, WARM_JOBS, already=0)
            note = f"{options.pods} pods on {options.nodes} nodes, {options.pod_profile}"
            bench.record("memory_mib_before", memory(cluster, berth))
            before, asked = cpu(cluster, berth), cluster.requests()
            bench.figure(
                "start", _start(cluster, berth, bench, options.pods, already=WARM_JOBS), "s", less_is_better=True, note=note
            )
            used = spent(before, cpu(cluster, berth), per=options.pods)
            to_start = cluster.requests() - asked
            _tell_memory(cluster, berth, bench, note)
            bench.record("cpu_milliseconds_per_start", used)
            bench.say(f"CPU a start: {shown(used, 'ms')}")
            bench.figure("start-cpu", used["berth"], "ms/pod", accept=15, aim=8, less_is_better=True, note=note)
            bench.figure("start-cpu-api-server", used["kube-apiserver"], "ms/pod", less_is_better=True)
            _quiet(cluster, berth, bench, max(QUIET_SECONDS_MIN, options.seconds))
            asked = cluster.requests()
            _tell_lags(bench, _end_some(cluster, berth, bench, ends, options.seconds), note)
            wait_for(berth, bench, FORGOTTEN, ends, "attempts are forgotten")
            to_end = cluster.requests() - asked
            bench.record("requests_per_start", _each(to_start, options.pods))
            bench.record("requests_per_end", _each(to_end, ends))
            requests = _of_jobs(to_start) / options.pods + _of_jobs(to_end) / ends
            bench.figure("requests", requests, "requests/job", aim=6, less_is_better=True)


def _start(cluster: SimulatedCluster, berth: RunningPlatform, bench: Bench, count: int, *, already: int) -> float:
    """Seconds from the first submission until all run."""
    began = time.monotonic()
    sizes = [min(BATCH_ITEMS, count - start) for start in range(0, count, BATCH_ITEMS)]
    bodies = (
        {"spec": SPEC, "tenant": berth.tenant, "items": [{"name": f"runs-{part}-{each}"} for each in range(size)]}
        for part, size in enumerate(sizes)
    )
    parts = iter([request("POST", "/api/v1/jobs:batch", token=berth.token, body=json.dumps(body).encode()) for body in bodies])
    outcome = drive(berth.url, lambda _: next(parts, None), clients=2, wanted=201)
    if outcome.errors:
        raise BenchError(f"submissions failed: {dict(outcome.errors)}")
    wait_for(berth, bench, ALL_RUN, already + count, "pods run")
    return time.monotonic() - began


def _tell_memory(cluster: SimulatedCluster, berth: RunningPlatform, bench: Bench, note: str) -> None:
    held = memory(cluster, berth)
    bench.record("memory_mib", held)
    bench.say(f"memory: {shown(held, 'MiB')}")
    for name, value in held.items():
        bench.figure(f"memory-{name.replace(' ', '-')}", value, "MiB", less_is_better=True, note=note if name == "berth" else "")


def _quiet(cluster: SimulatedCluster, berth: RunningPlatform, bench: Bench, seconds: float) -> None:
    """What it costs that all run and nothing happens."""
    before, asked, began = cpu(cluster, berth), cluster.requests(), time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        bench.progress(f"quiet for {passed:.0f} of {seconds:.0f} s")
        time.sleep(1.0)
    used = spent(before, cpu(cluster, berth), per=1_000 * passed)
    bench.record("cpu_cores_quiet", used)
    bench.record("requests_per_second_quiet", {name: count / passed for name, count in (cluster.requests() - asked).items()})
    bench.figure("quiet-cpu", used["berth"], "cores", less_is_better=True, note="all run and nothing ends")
    bench.figure("quiet-cpu-api-server", used["kube-apiserver"], "cores", less_is_better=True)


def _end_some(cluster: SimulatedCluster, berth: RunningPlatform, bench: Bench, count: int, seconds: float) -> list[float]:
    """End so many pods at random moments within these seconds; for each, how late its end was a row."""
    running = sorted(uuid.UUID(str(row[0])) for row in berth.rows("SELECT id FROM jobs_attempt WHERE state = 'running'"))
    pods = cluster.request("GET", f"/api/v1/pods?limit=1&labelSelector={names.KIND.replace('/', '%2F')}%3D{names.TASK}")
    namespace = pods["items"][0]["metadata"]["namespace"]
    dice = random.Random(SEED)
    chosen = dice.sample(running, count)
    began = time.monotonic()
    moments = [began + dice.uniform(0, seconds) for _ in chosen]

    def end(attempt_id: uuid.UUID, at: float) -> float:
        time.sleep(max(0.0, at - time.monotonic()))
        return cluster.end_pod(namespace, names.pod_name(attempt_id, 0))

    known_at: dict[uuid.UUID, float] = {}
    asked_at: dict[uuid.UUID, Future[float]] = {}
    with ThreadPoolExecutor(ENDERS) as pool:
        for at, attempt_id in sorted(zip(moments, chosen, strict=True)):
            asked_at[attempt_id] = pool.submit(end, attempt_id, at)
        last = max(moments)
        while len(known_at) < count:
            found = [uuid.UUID(str(row[0])) for row in berth.rows("SELECT id FROM jobs_attempt WHERE state = 'ended'")]
            now = time.monotonic()
            if any(attempt_id not in known_at for attempt_id in found):
                last = max(last, now)
            known_at = {**dict.fromkeys(found, now), **known_at}
            if now - last > STALL_SECONDS_MAX:
                raise BenchError(f"{count - len(known_at)} ends are not known {STALL_SECONDS_MAX:.0f} s after the last one was")
            bench.progress(f"{len(known_at)} of {count} ends are known")
            time.sleep(LOOK_SECONDS)
    return sorted(known_at[attempt_id] - asked.result() for attempt_id, asked in asked_at.items())


def _tell_lags(bench: Bench, lags: list[float], note: str) -> None:
    bench.record("lag_seconds", lags)
    for percent, accept, aim in ((50, None, None), (99, 2.0, 1.0)):
        at = lags[min(len(lags) - 1, len(lags) * percent // 100)]
        bench.figure(f"lag-p{percent}", at, "s", accept=accept, aim=aim, less_is_better=True, note=note)
    bench.figure("lag-max", lags[-1], "s", less_is_better=True, note=f"{len(lags)} ends")


def _of_jobs(asked: Counter[str]) -> int:
    return sum(count for name, count in asked.items() if not name.startswith(NOT_A_JOBS))


def _each(asked: Counter[str], count: int) -> dict[str, float]:
    return {name: round(times / count, 3) for name, times in asked.most_common()}
