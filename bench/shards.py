"""Q1: how many shards a second a job of framework queue runs through its workers, against `xargs -P` with the same commands.

Both run the same commands on this machine in turns, as many at once. The queue's time is what its dispatcher says, from its first
answer to a worker to its last; how long the tasks of a job take to start is measured by P2. Each shard says its number: none may
be missing. `quick` commands do nothing, so that all of it is the queue's own cost; `short` ones take a fiftieth of a second.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import time
from functools import partial

from bench.frame import Bench, BenchError, alternate
from bench.platforms import RunningPlatform, running_platform

COMMANDS = {"quick": "echo $BERTH_SHARD", "short": "echo $BERTH_SHARD; sleep 0.02"}
JOB_SECONDS_MAX = 300.0
POLL_SECONDS = 0.1
MEMORY_BYTES = 64 * 1024**2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shards", type=int, default=1_000, help="shards of each run; default 1000")
    parser.add_argument("--shard-workers", type=int, default=8, help="workers, and commands of xargs at once; default 8")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side; default 3")


def run(options: argparse.Namespace, bench: Bench) -> None:
    settings = {"BERTH_LOCAL_CPU_MILLIS": "64000", "BERTH_LOCAL_MEMORY_BYTES": str(64 * 1024**3)}
    with running_platform(**settings) as berth:
        for kind, command in COMMANDS.items():
            sides = {
                "berth": partial(_queue, berth, command, options.shards, options.shard_workers),
                "xargs": partial(_xargs, command, options.shards, options.shard_workers),
            }
            rates = alternate(bench, sides, runs=options.runs, unit="shards/s")
            bench.record(f"shards_per_second_{kind}", rates)
            accept = 300 if kind == "quick" else None
            note = f"{options.shards} shards, {options.shard_workers} workers, none lost"
            bench.figure(f"shards-{kind}", rates["berth"], "shards/s", accept=accept, peers={"xargs": rates["xargs"]}, note=note)
            ratios = [ours / theirs for ours, theirs in zip(rates["berth"], rates["xargs"], strict=True)]
            bench.figure(f"shards-{kind}-ratio", ratios, "x xargs")


def _queue(berth: RunningPlatform, command: str, shards: int, workers: int) -> float:
    small = {"resources": {"cpu": 1, "memory": MEMORY_BYTES}}
    roles = {
        "dispatcher": {**small, "command": f"seq {shards}"},
        "worker": {**small, "command": command, "replicas": workers},
    }
    spec = {"name": "shards", "framework": "queue", "roles": roles}
    job = berth.api("POST", "/jobs", {"spec": spec, "tenant": berth.tenant})
    deadline = time.monotonic() + JOB_SECONDS_MAX
    while (state := berth.api("GET", f"/jobs/{job['id']}")["state"]) not in ("succeeded", "failed", "stopped"):
        if time.monotonic() > deadline:
            raise BenchError(f"the job is {state} after {JOB_SECONDS_MAX:.0f} s")
        time.sleep(POLL_SECONDS)
    text = _log(berth, job["id"], deadline)
    told = re.search(r"^berth: (\d+) shards done in ([0-9.]+) s$", text, re.MULTILINE)
    if state != "succeeded" or told is None or f"berth: progress {shards}/{shards}\n" not in text:
        raise BenchError(f"the job {state}: {text[-500:]}")
    _check(shards, text)
    return shards / float(told[2])


def _log(berth: RunningPlatform, job: str, deadline: float) -> str:
    """All that the job printed."""
    text, cursor = "", ""
    while time.monotonic() < deadline:
        page = berth.api("GET", f"/jobs/{job}/logs" + (f"?cursor={cursor}" if cursor else ""))
        text += "".join(item["text"] for item in page["items"])
        if page["complete"]:
            return text
        cursor = page["cursor"]
        if not page["items"]:
            time.sleep(POLL_SECONDS)
    raise BenchError("the log of the job did not become complete")


def _xargs(command: str, shards: int, workers: int) -> float:
    lines = "".join(f"{number}\n" for number in range(1, shards + 1))
    each = command.replace("$BERTH_SHARD", "$0")
    began = time.monotonic()
    done = subprocess.run(
        ["xargs", "-P", str(workers), "-n", "1", "sh", "-c", each], input=lines, capture_output=True, text=True, check=True
    )
    rate = shards / (time.monotonic() - began)
    _check(shards, done.stdout)
    return rate


def _check(shards: int, text: str) -> None:
    missing = set(map(str, range(1, shards + 1))) - set(text.split())
    if missing:
        raise BenchError(f"{len(missing)} of {shards} shards were not run: {sorted(missing)[:10]}")
