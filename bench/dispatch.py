"""P2: how many no-op jobs a second go from their submission to their stored end: Berth's local engine against Slurm.

Both run on this machine in turns, fresh each time, with the same number of slots: eight clients submit jobs that do nothing,
one request or one `sbatch` each, and the clock stops when the last one is stored as ended (Berth) or has left the queue (Slurm).
The jobs are equally isolated on both sides: processes of their own session, tracked, not confined. What Berth's sandbox costs,
which Slurm has nothing to set against, is measured beside it, and so are arrays.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from functools import partial

from bench import slurm_peer
from bench.frame import Bench, BenchError, alternate
from bench.load import drive, request
from bench.platforms import RunningPlatform, running_platform

CLIENTS = 8
MEMORY_BYTES_PER_SLOT = 16 * 1024**2  # As Slurm's DefMemPerCPU here.
POLL_SECONDS = 0.1
STALL_SECONDS_MAX = 60.0  # Nothing ended for so long: something is wrong, and waiting does not help.
WARM_JOBS = 20  # The first jobs of a process pay for imports and caches; the peer's daemons have nothing of the kind.

PLAIN, SANDBOX, ARRAY = "berth", "berth-sandbox", "berth-array"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=2_000, help="jobs of each run; default 2000")
    parser.add_argument("--slots", type=int, default=1_024, help="jobs that may run at once, on each side; default 1024")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side; default 3")
    parser.add_argument("--profile", choices=["embedded", "production"], default="embedded", help="Berth's profile")
    parser.add_argument(
        "--sides", default="berth,slurm-tuned,berth-sandbox,slurm-defaults,berth-array,slurm-tuned-array",
        help="what to measure, in this order; default everything",
    )  # fmt: skip


def run(options: argparse.Namespace, bench: Bench) -> None:
    costs: dict[str, list[dict[str, float]]] = {}
    known: dict[str, Callable[[], float]] = {
        PLAIN: partial(_berth, options, bench, costs, PLAIN, sandbox=False),
        SANDBOX: partial(_berth, options, bench, costs, SANDBOX, sandbox=True),
        ARRAY: partial(_berth, options, bench, costs, ARRAY, sandbox=False, array=True),
        "slurm-tuned": partial(_slurm, options, bench, slurm_peer.TUNED),
        "slurm-defaults": partial(_slurm, options, bench, slurm_peer.DEFAULTS),
        "slurm-tuned-array": partial(_slurm, options, bench, slurm_peer.TUNED, array=True),
    }
    unknown = [name for name in options.sides.split(",") if name not in known]
    if unknown:
        raise BenchError(f"no side is called {', '.join(unknown)}; there are {', '.join(known)}")
    sides = {name: known[name] for name in options.sides.split(",")}
    if any("slurm" in name for name in sides):
        slurm_peer.require_packages()
    rates = alternate(bench, sides, runs=options.runs, unit="jobs/s")
    bench.record("jobs_per_second", rates)
    bench.record("cpu_milliseconds_per_job", costs)
    _report(bench, rates, isolation_note=f"{options.profile}, {options.jobs} jobs, {options.slots} slots")
    for side, runs in costs.items():
        parts = sorted({name for each in runs for name in each})
        means = {name: sum(each.get(name, 0.0) for each in runs) / len(runs) for name in parts}
        bench.say(f"{side}: CPU a job: " + ", ".join(f"{name} {value:.2f} ms" for name, value in means.items()))


def _report(bench: Bench, rates: dict[str, list[float]], *, isolation_note: str) -> None:
    peers = {name: rates[name] for name in ("slurm-tuned", "slurm-defaults") if name in rates}
    array_peers = {name: rates[name] for name in ("slurm-tuned-array",) if name in rates}
    if PLAIN in rates:
        bench.figure(f"dispatch-{PLAIN}", rates[PLAIN], "jobs/s", aim=200, peers=peers, note=f"plain isolation, {isolation_note}")
        _ratio(bench, "dispatch-ratio", rates[PLAIN], peers.get("slurm-tuned"), accept=1.0, aim=3.0)
    if SANDBOX in rates:
        bench.figure(f"dispatch-{SANDBOX}", rates[SANDBOX], "jobs/s", peers=peers, note=f"full sandbox, {isolation_note}")
        _ratio(bench, "dispatch-sandbox-ratio", rates[SANDBOX], peers.get("slurm-tuned"), accept=None, aim=None)
    if ARRAY in rates:
        bench.figure(f"dispatch-{ARRAY}", rates[ARRAY], "jobs/s", peers=array_peers, note=f"one array, {isolation_note}")
        _ratio(bench, "dispatch-array-ratio", rates[ARRAY], array_peers.get("slurm-tuned-array"), accept=1.0, aim=3.0)


def _ratio(
    bench: Bench, name: str, ours: list[float], theirs: list[float] | None, *, accept: float | None, aim: float | None
) -> None:
    """Run by run: both sides of a turn had the same neighbours on the machine."""
    if theirs:
        bench.figure(name, [a / b for a, b in zip(ours, theirs, strict=True)], "x tuned Slurm", accept=accept, aim=aim)


def _slurm(options: argparse.Namespace, bench: Bench, configuration: slurm_peer.Configuration, *, array: bool = False) -> float:
    with slurm_peer.slurm(configuration, slots=options.slots) as peer:
        bench.record("slurm_version", peer.version)
        peer.run_noops(WARM_JOBS)
        return peer.run_noops(
            options.jobs, array=array, progress=lambda left: bench.progress(f"{configuration.name}: {left} left")
        )


def _berth(
    options: argparse.Namespace,
    bench: Bench,
    costs: dict[str, list[dict[str, float]]],
    side: str,
    *,
    sandbox: bool,
    array: bool = False,
) -> float:
    settings = {
        "BERTH_LOCAL_CPU_MILLIS": str(options.slots * 1000),
        "BERTH_LOCAL_MEMORY_BYTES": str(options.slots * MEMORY_BYTES_PER_SLOT),
        "BERTH_LOCAL_ISOLATION": "auto" if sandbox else "none",
    }
    with running_platform(profile=options.profile, **settings) as berth:
        run_noops(berth, bench, WARM_JOBS)
        before = berth.cpu_seconds()
        rate = run_noops(berth, bench, options.jobs, array=array)
        after = berth.cpu_seconds()
        used = {name: 1000 * (seconds - before.get(name, 0.0)) / options.jobs for name, seconds in after.items()}
        costs.setdefault(side, []).append(used)
        return rate


SPEC: dict[str, object] = {"name": "noop", "command": ["true"], "resources": {"cpu": 1, "memory": MEMORY_BYTES_PER_SLOT}}


def run_noops(
    berth: RunningPlatform, bench: Bench, count: int, spec: Mapping[str, object] = SPEC, *, array: bool = False
) -> float:
    """Jobs per second from the first submission until the last end is a row."""
    stored_before = _ended(berth)
    began = time.monotonic()
    if array:
        berth.api("POST", "/jobs", {"spec": {**spec, "array": {"size": count}}, "tenant": berth.tenant})
    else:
        body = request(
            "POST", "/api/v1/jobs", token=berth.token, body=json.dumps({"spec": spec, "tenant": berth.tenant}).encode()
        )
        left = iter(range(count))
        outcome = drive(berth.url, lambda _: body if next(left, None) is not None else None, clients=CLIENTS, wanted=201)
        if outcome.errors:
            raise BenchError(f"submissions failed: {dict(outcome.errors)}")
        bench.record(f"submissions_per_second_{count}", outcome.rate)
    _drain(berth, bench, count, stored_before)
    rate = count / (time.monotonic() - began)
    failed = berth.rows("SELECT count(*) FROM jobs_job WHERE state IN ('failed', 'stopped')")[0][0]
    if failed:
        raise BenchError(f"{failed} no-op jobs did not succeed")
    return rate


def _drain(berth: RunningPlatform, bench: Bench, count: int, stored_before: int) -> None:
    seen, seen_at = 0, time.monotonic()
    while (ended := _ended(berth) - stored_before) < count:
        if ended > seen:
            seen, seen_at = ended, time.monotonic()
        if time.monotonic() - seen_at > STALL_SECONDS_MAX:
            raise BenchError(f"{count - ended} jobs are left and none has ended for {STALL_SECONDS_MAX:.0f} s")
        bench.progress(f"berth: {count - ended} left")
        time.sleep(POLL_SECONDS)


def _ended(berth: RunningPlatform) -> int:
    """Jobs that ran and whose end is stored; an array's parent is none of them."""
    found = berth.rows("SELECT count(*) FROM jobs_job WHERE state IN ('succeeded', 'failed', 'stopped') AND array_size IS NULL")
    return int(found[0][0])
