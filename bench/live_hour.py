"""HOUR: lives an hour on a live installation and keeps the scheduler's event log of it as a golden trace.

The product's own command with eight simulated GPUs, real processes that sleep, and two tenants of unequal parts. They take turns
to ask for much more than their part: in the first third of each five minutes the first, in the last third the second, between
them both. So each borrows from the other and each takes back what it deserves. Jobs are gangs of one to eight GPUs, some of
several tasks, with and without a maximum run time, of three priorities; some are arrays, and some are stopped by their tenant.
Once the parts of the two are exchanged, and once the node is cordoned for half a minute. What comes when is drawn from a seed;
what happens is not, because a live installation takes its time.

The event log has all that the scheduler's core was told and all that it decided. It is decided again here, then stripped of
names and decided again, before it is kept. `--keep` puts it in place of `bench/hour_log.jsonl.gz`, which `make test` and GOLD
decide again: so a change that decides otherwise on purpose lives such an hour anew.
"""

from __future__ import annotations

import argparse
import gzip
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.frame import ROOT, Bench, BenchError
from bench.platforms import RunningPlatform, running_platform
from jobs.reconcile import event_log
from jobs.scheduling.replay.log import Log, decision_lines, log_lines, read_log, replay
from jobs.scheduling.replay.mask import Mask
from jobs.scheduling.replay.recorder import as_far_as_decided, decide_again

HOUR_LOG = ROOT / "bench" / "hour_log.jsonl.gz"
GPUS = 8
PARTS = {"vision": 5_000, "speech": 3_000}  # What each deserves, in thousandths of a GPU.
CYCLE_SECONDS = 300
BUSY, QUIET = 1.2, 0.3  # How much of all GPUs a tenant asks for in its turn, and otherwise.
SIZES = (1, 1, 1, 1, 2, 2, 4, 4, 8)
SECONDS = (5, 10, 20, 40)
CORDONED_SECONDS = 30
SETTINGS = {
    "BERTH_LOCAL_SIMULATED_GPUS": f"{GPUS}xA100",
    "BERTH_LOCAL_CPU_MILLIS": "64000",
    "BERTH_LOCAL_MEMORY_BYTES": str(64 << 30),
    "BERTH_GRACE_SECONDS": "2",
    "BERTH_SCHEDULER_LEAST_RUNTIME_SECONDS": "5",  # An hour has jobs of half a minute; a day has jobs of half an hour.
    "BERTH_SCHEDULER_STARVATION_GUARD_SECONDS": "600",
    "BERTH_SCHEDULER_MIGRATES_AFTER_SECONDS": "30",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=60, help="how long the installation is used; default 60")
    parser.add_argument("--seed", type=int, default=1, help="of what comes when; default 1")
    parser.add_argument("--keep", action="store_true", help="keep the event log as bench/hour_log.jsonl.gz")


def run(options: argparse.Namespace, bench: Bench) -> None:
    with running_platform(**SETTINGS) as platform:
        _live(platform, bench, round(options.minutes * 60), random.Random(options.seed))
        platform.stop()
        logs = [read_log(event_log.lines(kept.path), is_open=True) for kept in event_log.files(platform.data_dir / "scheduler")]
    if not logs:
        raise BenchError("the platform kept no event log")
    longest = as_far_as_decided(max(logs, key=lambda log: len(log.passes)))
    masked: Log = Mask((longest.state, longest.events, longest.passes)).of(longest)
    for name, log in (("as it was", longest), ("without names", masked)):
        found = decide_again(log)
        told = f"{found.passes} passes, {found.decisions} decisions"
        bench.figure(f"hour-{name.replace(' ', '-')}", found.difference is None, "", accept=1, note=told)
        if found.difference is not None:
            raise BenchError(f"{name}, pass {found.passes} is decided otherwise: {found.difference}")
    made = [type(decision).__name__ for decided in masked.passes for decision in decided.decisions]
    bench.record("decisions", {name: made.count(name) for name in sorted(set(made))})
    bench.say(", ".join(f"{made.count(name)} {name}" for name in sorted(set(made))))
    if options.keep:
        write_log(masked, HOUR_LOG)
        bench.say(f"kept: {HOUR_LOG} ({HOUR_LOG.stat().st_size >> 10} KiB)")


def kept_log(path: Path = HOUR_LOG) -> Log:
    """The event log of an hour of a live installation, with what was decided in it."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        return read_log(lines)


def write_log(log: Log, path: Path) -> None:
    """The same bytes for the same log."""
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in log_lines(log)).encode("ascii"), mtime=0))


def decision_logs(log: Log) -> tuple[list[str], list[str]]:
    """The lines of what was decided when the log was written, and of what is decided now."""
    return list(decision_lines(log.passes)), list(decision_lines(replay(log)))


# --- The life of the installation ---------------------------------------------------------------------------------------


class _Tenant:
    """One tenant and what it submits."""

    def __init__(self, platform: RunningPlatform, name: str, turn: int, chance: random.Random) -> None:
        self.platform = platform
        self.slug = platform.api("POST", "/tenants", {"name": name})["slug"]
        self.turn = turn
        self.chance = chance
        self.next_at = 0.0
        self.jobs: list[str] = []

    def submit(self, second: float) -> None:
        """One job; the next comes when this one has used up as much as the tenant asks for."""
        chance, gpus, seconds = self.chance, self.chance.choice(SIZES), self.chance.choice(SECONDS)
        tasks = gpus if gpus > 1 and chance.random() < 0.3 else 1
        role: dict[str, Any] = {
            "command": f"exec sleep {seconds}",
            "replicas": tasks,
            "resources": {"cpu": 1, "memory": "64Mi", "gpu": gpus // tasks},
        }
        spec: dict[str, Any] = {"name": f"job-{len(self.jobs)}", "roles": {"worker": role}}
        if chance.random() < 0.6:
            spec["max_runtime"] = f"{seconds + 15}s"
        if chance.random() < 0.25:
            spec["priority"] = chance.choice(("low", "high"))
        many = 4 if gpus == 1 and chance.random() < 0.3 else 1
        if many > 1:
            spec["array"] = {"size": many, "parallelism": 2}
        self.jobs.append(self.platform.api("POST", "/jobs", {"tenant": self.slug, "spec": spec})["id"])
        third = int(second % CYCLE_SECONDS * 3 / CYCLE_SECONDS)
        is_busy = third in (1, self.turn)
        self.next_at += many * gpus * seconds / (GPUS * (BUSY if is_busy else QUIET))

    def stop_one(self) -> None:
        """Stop one of the jobs that came of late; it may have ended."""
        job = self.chance.choice(self.jobs[-6:])
        self.platform.api("POST", f"/jobs/{job}/stop", {})


def _live(platform: RunningPlatform, bench: Bench, seconds: int, chance: random.Random) -> None:
    tenants = [_Tenant(platform, name, turn, chance) for name, turn in zip(PARTS, (0, 2), strict=True)]
    pool = _the_pool(platform)
    _set_parts(platform, pool, PARTS.values())
    [node] = platform.api("GET", "/nodes")["items"]
    began, stops_at, is_exchanged, cordoned = time.monotonic(), 40.0, False, 0
    while (second := time.monotonic() - began) < seconds:
        for tenant in tenants:
            while tenant.next_at <= second:
                tenant.submit(tenant.next_at)
        if second >= stops_at:
            chance.choice(tenants).stop_one()
            stops_at += chance.uniform(30, 90)
        if not is_exchanged and second >= seconds / 2:
            _set_parts(platform, pool, reversed(PARTS.values()))
            is_exchanged = True
        if cordoned == 0 and second >= seconds / 3:
            platform.api("PATCH", f"/nodes/{node['id']}", {"cordoned": True, "cordon_reason": "A fan is noisy."})
            cordoned = 1
        if cordoned == 1 and second >= seconds / 3 + CORDONED_SECONDS:
            platform.api("PATCH", f"/nodes/{node['id']}", {"cordoned": False})
            cordoned = 2
        bench.progress(f"{second / 60:.0f} of {seconds / 60:.0f} minutes, {sum(len(tenant.jobs) for tenant in tenants)} jobs")
        time.sleep(0.5)


def _the_pool(platform: RunningPlatform) -> str:
    """The pool of the GPUs, once the machine is known."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pool in platform.api("GET", "/pools")["items"]:
            if pool["capacity"]["gpu_millis"]:
                return str(pool["id"])
        time.sleep(0.2)
    raise BenchError("the platform found no GPUs")


def _set_parts(platform: RunningPlatform, pool: str, parts: Iterable[int]) -> None:
    tops = {
        row["tenant"]["name"]: row["id"] for row in platform.api("GET", "/queues")["items"] if row.get("tenant") and row["is_top"]
    }
    for name, gpus in zip(PARTS, parts, strict=True):
        platform.api("PUT", f"/queues/{tops[name]}/limits", [{"pool": pool, "deserved": {"gpu_millis": gpus}}])
