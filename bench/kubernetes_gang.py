"""K4: one job of many tasks with a large spec on simulated nodes: until all its tasks run, its page, until it is gone.

The spec is as large by variables: so many roles share the tasks, and each has its part of the text in two variables, which its
pods carry. Every task has the hosts file of all, and waits until all have an address. The start is from the submission until all
tasks run by Berth's rows. The page is what the portal asks for when it opens the list of tasks: the job, then all its tasks, one
after the other. The stop is from the request until the attempt is ended by Berth's rows and the cluster has no pod of it.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from typing import Any

from bench.frame import Bench
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
from bench.platforms import RunningPlatform
from clusters.engines.kubernetes import names

ROLES = 25
VARIABLES = 2  # Of each role: one is at most 64 KiB.
PAGE_ASKS = 20
TASKS_PAGE = 500  # As the portal asks.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", type=int, default=400, help="tasks of the job, a multiple of 25; default 400")
    parser.add_argument("--spec-bytes", type=int, default=2_000_000, help="size of its spec; default 2000000")
    parser.add_argument("--nodes", type=int, default=100, help="simulated nodes of 64 cores and 110 pods; default 100")
    parser.add_argument("--addresses", action="store_true", help="tasks are told addresses in place of names, as without DNS")
    parser.add_argument("--pod-profile", choices=["embedded", "production"], default="production", help="Berth's profile")


def run(options: argparse.Namespace, bench: Bench) -> None:
    with simulated_cluster(nodes=options.nodes, runs_on=True) as cluster:
        cluster.print_line("O", 0, b"")
        cluster.print_line("E", 0, b"")
        with berth_on(cluster, profile=options.pod_profile, nodes=options.nodes, pod_addresses=options.addresses) as berth:
            _measure(cluster, berth, bench, options.tasks // ROLES * ROLES, options.spec_bytes)


def _measure(cluster: SimulatedCluster, berth: RunningPlatform, bench: Bench, tasks: int, spec_bytes: int) -> None:
    small = _spec(ROLES, 0)
    _stop(cluster, berth, bench, _start(berth, bench, small, ROLES), "warm")
    spec = _spec(tasks, spec_bytes)
    size = len(json.dumps(spec).encode())
    note = f"{tasks} tasks in {ROLES} roles, a spec of {size} bytes"
    before, asked, began = cpu(cluster, berth), cluster.requests(), time.monotonic()
    job = _start(berth, bench, spec, tasks)
    bench.figure("gang-start", time.monotonic() - began, "s", less_is_better=True, note=note)
    used, to_start = spent(before, cpu(cluster, berth), per=tasks), cluster.requests() - asked
    held = memory(cluster, berth)
    bench.record("cpu_milliseconds_per_task", used)
    bench.record("memory_mib", held)
    bench.record("requests_to_start", dict(to_start.most_common()))
    bench.say(f"CPU a task: {shown(used, 'ms')}")
    bench.say(f"memory: {shown(held, 'MiB')}")
    bench.figure("gang-requests", to_start.total() / tasks, "requests/task", less_is_better=True, note="until all run")
    _tell_page(berth, bench, job, tasks, note)
    _stop(cluster, berth, bench, job, "gang")


def _spec(tasks: int, size: int) -> dict[str, Any]:
    """A job of so many tasks that is about so many bytes large."""
    part = size // ROLES // VARIABLES
    role = {"replicas": tasks // ROLES, "command": ["true"], "resources": {"cpu": 1, "memory": "64Mi"}}
    env = {f"TABLE_{each}": "x" * part for each in range(VARIABLES)} if part else {}
    roles = {f"part-{number}": {**role, "env": env} for number in range(ROLES)}
    return {"name": "gang", "cluster": CLUSTER, "roles": roles}


def _start(berth: RunningPlatform, bench: Bench, spec: dict[str, Any], tasks: int) -> str:
    """The job's id, once all its tasks run."""
    began = time.monotonic()
    job = str(berth.api("POST", "/jobs", {"spec": spec, "tenant": berth.tenant})["id"])
    bench.record(f"submission_seconds_{tasks}", time.monotonic() - began)
    all_run = f"SELECT count(*) FROM jobs_task WHERE job_id = '{_stored(berth, job)}' AND state = 'running'"
    wait_for(berth, bench, all_run, tasks, "tasks run")
    return job


def _tell_page(berth: RunningPlatform, bench: Bench, job: str, tasks: int, note: str) -> None:
    taken: dict[str, list[float]] = {"page": [], "page-job": [], "page-tasks": [], "page-spec": []}
    for _ in range(PAGE_ASKS + 1):
        began = time.monotonic()
        berth.api("GET", f"/jobs/{job}")
        has_job = time.monotonic()
        found = berth.api("GET", f"/jobs/{job}/tasks?limit={TASKS_PAGE}")
        while found["next"]:
            found = berth.api("GET", f"/jobs/{job}/tasks?limit={TASKS_PAGE}&cursor={found['next']}")
        has_tasks = time.monotonic()
        berth.api("GET", f"/jobs/{job}/spec")
        for name, seconds in (
            ("page", has_tasks - began),
            ("page-job", has_job - began),
            ("page-tasks", has_tasks - has_job),
            ("page-spec", time.monotonic() - has_tasks),
        ):
            taken[name].append(seconds)
    for name, samples in taken.items():
        ordered = sorted(samples[1:])  # The first ask warms up.
        bench.record(f"{name}_seconds", ordered)
        p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
        bench.figure(f"{name}-p99", p99, "s", accept=1.0 if name == "page" else None, less_is_better=True, note=note)


def _stop(cluster: SimulatedCluster, berth: RunningPlatform, bench: Bench, job: str, name: str) -> None:
    asked, began = cluster.requests(), time.monotonic()
    berth.api("POST", f"/jobs/{job}/stop", {"grace_seconds": 0})
    ended = f"SELECT count(*) FROM jobs_attempt WHERE job_id = '{_stored(berth, job)}' AND state = 'ended'"
    wait_for(berth, bench, ended, 1, "attempts are ended")
    bench.record(f"{name}_ended_seconds", time.monotonic() - began)
    selector = f"{names.JOB}={job}".replace("/", "%2F").replace("=", "%3D")
    while cluster.request("GET", f"/api/v1/pods?limit=1&labelSelector={selector}")["items"]:
        if time.monotonic() - began > STALL_SECONDS_MAX:
            bench.say(f"pods are left {STALL_SECONDS_MAX:.0f} s after the stop")
            break
        time.sleep(0.25)
    bench.figure(f"{name}-stop", time.monotonic() - began, "s", less_is_better=True, note="until no pod is left")
    bench.record(f"{name}_requests_to_stop", dict((cluster.requests() - asked).most_common()))


def _stored(berth: RunningPlatform, job: str) -> str:
    return uuid.UUID(job).hex if berth.stores is None else job
