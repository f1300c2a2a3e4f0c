"""P1: submissions a second, single by 32 keep-alive clients, then 100,000 jobs by batch and by array; against sbatch.

Each request is authenticated, checked against the spec's rules and the queue's ceilings, and answered with 201 after one
transaction has stored the job, its transition, its event and the audit row (and a new spec row: every job has a name and a
variable of its own). The cluster is full, so all jobs wait and the scheduler looks at all of them, as Slurm's does on the other
side. The clients run on the same cores; what they cost is shown. PostgreSQL keeps `fsync` on.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator

from bench import slurm_peer
from bench.frame import Bench, BenchError, alternate
from bench.load import Outcome, drive, request
from bench.platforms import RunningPlatform, running_platform

SPEC = {"command": "sleep 3600", "resources": {"cpu": 1, "memory": "64Mi"}}
BATCH_ITEMS = 5_000
START_SECONDS_MAX = 60.0
SETTLE_SECONDS = 2.0  # After the last answer: what submissions make the other processes do counts as their cost.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", choices=["embedded", "production"], default="production", help="Berth's profile")
    parser.add_argument("--clients", type=int, default=32, help="keep-alive clients; default 32")
    parser.add_argument("--submissions", type=int, default=4_000, help="single submissions of each run; default 4000")
    parser.add_argument("--bulk-jobs", type=int, default=100_000, help="jobs of each batch and array run; default 100000")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side; default 3")
    parser.add_argument("--sides", default="berth,sbatch-8,berth-keyed,berth-batch,berth-array", help="what to measure, in turn")


def run(options: argparse.Namespace, bench: Bench) -> None:
    wanted = options.sides.split(",")
    single: dict[str, list[Outcome]] = {}
    costs: dict[str, list[dict[str, float]]] = {}
    known: dict[str, Callable[[], float]] = {
        "berth": lambda: _single(options, bench, single, costs, "berth", keyed=False),
        "berth-keyed": lambda: _single(options, bench, single, costs, "berth-keyed", keyed=True),
        "berth-batch": lambda: _bulk(options, bench, costs, "berth-batch", _batches),
        "berth-array": lambda: _bulk(options, bench, costs, "berth-array", _arrays),
        "sbatch-8": lambda: _sbatch(options),
    }
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise BenchError(f"no side is called {', '.join(unknown)}; there are {', '.join(known)}")
    if "sbatch-8" in wanted:
        slurm_peer.require_packages()
    rates = alternate(bench, {name: known[name] for name in wanted}, runs=options.runs, unit="/s")
    bench.record("per_second", rates)
    bench.record("cpu_milliseconds", costs)
    peers = {"sbatch-8": rates["sbatch-8"]} if "sbatch-8" in rates else {}
    note = f"{options.profile}, {options.clients} clients, cluster full"
    for side, outcomes in single.items():
        accept, aim = (150.0, 400.0) if side == "berth" else (None, None)
        bench.figure(f"single-{side}", rates[side], "/s", accept=accept, aim=aim, peers=peers, note=note)
        for percent, p_accept, p_aim in ((50, None, None), (95, None, None), (99, 250.0, 100.0)):
            samples = [outcome.percentile(percent) for outcome in outcomes]
            levels = {"accept": p_accept, "aim": p_aim} if side == "berth" else {}
            bench.figure(f"single-{side}-p{percent}", samples, "ms", less_is_better=True, **levels)  # type: ignore[arg-type]
        errors = sum((outcome.errors for outcome in outcomes), start=Counter[str]())
        number = float(errors.total())
        bench.figure(f"single-{side}-errors", number, "", accept=0.0, less_is_better=True, note=str(dict(errors) or ""))
    for side in ("berth-batch", "berth-array"):
        if side in rates:
            note = f"{options.bulk_jobs} jobs, {options.profile}"
            bench.figure(side, rates[side], "jobs/s", accept=5_000, aim=15_000, note=note)
    for side, runs in costs.items():
        parts = sorted({name for each in runs for name in each})
        means = {name: sum(each.get(name, 0.0) for each in runs) / len(runs) for name in parts}
        unit = "ms of CPU a submission" if side in single else "ms of CPU per 1,000 jobs"
        for name, value in means.items():
            bench.figure(f"{side}-cpu-{name}", value, unit, less_is_better=True)
        bench.figure(
            f"{side}-cpu-all", sum(value for name, value in means.items() if name != "client"), unit, less_is_better=True
        )


def _single(
    options: argparse.Namespace,
    bench: Bench,
    outcomes: dict[str, list[Outcome]],
    costs: dict[str, list[dict[str, float]]],
    side: str,
    *,
    keyed: bool,
) -> float:
    with _full_platform(options) as berth:
        requests = _requests(berth, options.submissions + 10 * options.clients, keyed=keyed)
        warm = itertools.islice(requests, 10 * options.clients)
        drive(berth.url, lambda client: next(warm, None), clients=options.clients, wanted=201)
        time.sleep(SETTLE_SECONDS)
        before, own = berth.cpu_seconds(), time.process_time()
        outcome = drive(berth.url, lambda client: next(requests, None), clients=options.clients, wanted=201)
        own = time.process_time() - own
        time.sleep(SETTLE_SECONDS)
        count = max(1, len(outcome.latencies))
        costs.setdefault(side, []).append({**_cost(berth, before, per=count), "client": 1000 * own / count})
        stored = berth.rows("SELECT count(*) FROM jobs_job WHERE name LIKE 'bench-%'")[0][0]
        if stored < len(outcome.latencies) + 10 * options.clients:
            raise BenchError(f"{len(outcome.latencies)} submissions were accepted, and {stored} jobs are stored")
    outcomes.setdefault(side, []).append(outcome)
    bench.say(f"{side}: p50 {outcome.percentile(50):.0f} p95 {outcome.percentile(95):.0f} p99 {outcome.percentile(99):.0f} ms")
    return outcome.rate


def _bulk(
    options: argparse.Namespace,
    bench: Bench,
    costs: dict[str, list[dict[str, float]]],
    side: str,
    requests_of: Callable[[RunningPlatform, int], Iterator[tuple[int, bytes]]],
) -> float:
    """Two clients, one for each core of the reference size, send their parts until all jobs are accepted."""
    with _full_platform(options) as berth:
        parts = list(requests_of(berth, options.bulk_jobs))
        bodies = iter([body for _, body in parts])
        before = berth.cpu_seconds()
        outcome = drive(berth.url, lambda client: next(bodies, None), clients=2, wanted=201)
        if outcome.errors:
            raise BenchError(f"{side}: {dict(outcome.errors)}")
        count = sum(number for number, _ in parts)
        rate = count / outcome.seconds
        time.sleep(SETTLE_SECONDS)
        costs.setdefault(side, []).append(_cost(berth, before, per=count / 1000))
        stored = berth.rows("SELECT count(*) FROM jobs_job")[0][0]
        if stored < count:
            raise BenchError(f"{count} jobs were accepted, and {stored} are stored")
    bench.say(f"{side}: {count} jobs in {outcome.seconds:.2f} s, {len(parts)} requests, p99 {outcome.percentile(99):.0f} ms")
    return rate


def _sbatch(options: argparse.Namespace) -> float:
    with slurm_peer.slurm(slurm_peer.TUNED, slots=4) as peer:
        peer.fill()
        count = min(2_000, options.submissions)
        return float(count / peer.submit(count, parallel=8))


@contextlib.contextmanager
def _full_platform(options: argparse.Namespace) -> Iterator[RunningPlatform]:
    """A platform whose only slot is taken."""
    with running_platform(profile=options.profile, BERTH_LOCAL_CPU_MILLIS="1000", BERTH_LOCAL_ISOLATION="none") as berth:
        job = berth.api("POST", "/jobs", {"spec": {"name": "holder", **SPEC}})
        deadline = time.monotonic() + START_SECONDS_MAX
        while berth.api("GET", f"/jobs/{job['id']}")["state"] != "running":
            if time.monotonic() > deadline:
                raise BenchError("the job that is to fill the cluster does not start")
            time.sleep(0.1)
        yield berth


def _requests(berth: RunningPlatform, count: int, *, keyed: bool) -> Iterator[bytes]:
    for number in range(count):
        spec = {"name": f"bench-{number}", "env": {"SEED": str(number)}, **SPEC}
        headers = [("Idempotency-Key", f"bench-{time.monotonic_ns()}-{number}")] if keyed else []
        yield request("POST", "/api/v1/jobs", token=berth.token, body=json.dumps({"spec": spec}).encode(), headers=headers)


def _batches(berth: RunningPlatform, count: int) -> Iterator[tuple[int, bytes]]:
    for start in range(0, count, BATCH_ITEMS):
        items = [{"name": f"bench-{number}"} for number in range(start, min(count, start + BATCH_ITEMS))]
        body = json.dumps({"spec": {"name": "bench", **SPEC}, "items": items}).encode()
        yield len(items), request("POST", "/api/v1/jobs:batch", token=berth.token, body=body)


def _arrays(berth: RunningPlatform, count: int) -> Iterator[tuple[int, bytes]]:
    body = json.dumps({"spec": {"name": "bench", **SPEC, "array": {"size": count}}}).encode()
    yield count, request("POST", "/api/v1/jobs", token=berth.token, body=body)


def _cost(berth: RunningPlatform, before: dict[str, float], *, per: float) -> dict[str, float]:
    """Milliseconds of CPU, by process."""
    after = berth.cpu_seconds()
    spent = {name: 1000 * (used - before.get(name, 0.0)) / per for name, used in after.items()}
    return {name: value for name, value in spent.items() if value >= 0.005}
