"""GOLD: the same events give the same decisions, to the byte: on this machine, in another process, and as when last looked at.

The beginnings of three public traces go through the scheduler's own core on a simulated clock: jobs of Philly with what tenants
deserve, evictions and gangs; pods of Alibaba's openb with parts of GPUs and models; a log of the Parallel Workloads Archive
with reserved starts. What the core is told is written down as an event log (`jobs/scheduling/replay/log.py`). Two fresh
processes, with other seeds of Python's hashes, make the decision log of it anew, and both have to be the same bytes.

Beside them twelve minutes of a live installation (`bench/hour.jsonl.gz`: eight simulated GPUs, two tenants that borrow from
each other and get back, gangs, arrays, priorities), as `manage.py export_window` wrote it, are lived through again; `make test`
does so, too.

Their SHA-256 stand in `bench/golden.json`. Another digest means that the scheduler decides otherwise than it did: where that was
the purpose of a change, `--write` keeps the new ones, and whoever reads the change sees it.

The event log of a longer time of such an installation (`bench/hour_log.jsonl.gz`, made by HOUR) has in it what was decided then.
It is decided again here and in `make test`, and the decision log has to be the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench import live_hour, packing, reserved_starts, tenancy
from bench.frame import ROOT, Bench, BenchError
from bench.traces import rows
from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.log import PassDecided, decision_lines, replay_log
from jobs.scheduling.replay.recorder import Recorder
from jobs.scheduling.replay.run import Arrival, Replay
from jobs.scheduling.replay.trace import Past, WindowReplay, read_past
from kernel.resources import Resources, total
from tenants.capacity.quota.limits import Capacity, LimitedQueue

GOLDEN = ROOT / "bench" / "golden.json"
HOUR, HOUR_GRACE_SECONDS = ROOT / "bench" / "hour.jsonl.gz", 2  # And the grace of that installation.
POOL = uuid.UUID(int=1)
WHERE = "GOLD needs the folder with the files of P7, P8 and P9: --traces DIR. Each of these says where they are published."
SEEDS = ("1", "2")
Scene = tuple[State, list[Arrival], int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traces", type=Path, help="folder of the traces")
    parser.add_argument("--first", type=int, default=2_000, help="so many jobs of each trace; default 2000")
    parser.add_argument("--golden", type=Path, default=GOLDEN, help="file of the digests; default bench/golden.json")
    parser.add_argument("--write", action="store_true", help="keep the digests of this run as the golden ones")
    parser.add_argument("--only", default=",".join(SCENES), help="names of traces, separated by commas; default all")


def run(options: argparse.Namespace, bench: Bench) -> None:
    if options.traces is None:
        raise BenchError(WHERE)
    golden: dict[str, Any] = json.loads(options.golden.read_text()) if options.golden.exists() else {}
    for name in options.only.split(","):
        if name not in SCENES:
            raise BenchError(f"There is no trace {name!r}: {', '.join(SCENES)}.")
        bench.progress(f"{name}: living through it")
        with tempfile.TemporaryDirectory() as folder:
            events = Path(folder) / "events.jsonl"
            passes = recorded(SCENES[name](options.traces, options.first), events)
            digests = {_decided_elsewhere(events, seed) for seed in SEEDS}
            found = {"jobs": options.first, "events": _digest(events.read_bytes()), "decisions": sorted(digests)[0]}
        bench.figure(f"{name}-processes-agree", len(digests) == 1, "", accept=1, note=f"{passes} passes")
        if options.write:
            golden[name] = found
        elif golden.get(name, {}).get("jobs") == options.first:
            bench.figure(f"{name}-golden", golden[name] == found, "", accept=1, note=found["decisions"][:16])
        else:
            bench.say(f"{name}: nothing to compare with for {options.first} jobs; {found['decisions']}")
        bench.record(name, found)
    passes = hour()[1]
    found = {"decisions": digest_of(passes)}
    if options.write:
        golden["hour"] = found
    else:
        bench.figure("hour-golden", golden.get("hour") == found, "", accept=1, note=f"{len(passes)} passes")
    bench.record("hour", found)
    then, now = live_hour.decision_logs(live_hour.kept_log())
    bench.figure("hour-log-decided-again", then == now, "", accept=1, note=f"{len(now)} lines")
    if options.write:
        options.golden.write_text(json.dumps(golden, indent=2, sort_keys=True) + "\n")
        bench.say(f"kept: {options.golden}")


def recorded(scene: Scene, path: Path) -> int:
    """Live through a scene and write the event log; returns how many passes there were."""
    state, arrivals, grace = scene
    with path.open("w", encoding="utf-8") as file:
        recorder = Recorder(state, lambda line: print(line, file=file))
        outcome = Replay(recorder.core, arrivals, grace_seconds=grace, tell=recorder.tell).run()
        recorder.close()
    return outcome.passes


def hour(path: Path = HOUR) -> tuple[Past, list[PassDecided]]:
    """An hour of a live installation, and what is decided when it is lived through again."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        past = read_past(lines)
    passes: list[PassDecided] = []
    WindowReplay(past, grace_seconds=HOUR_GRACE_SECONDS, on_decided=passes.append).run()
    return past, passes


def digest_of(passes: Iterable[PassDecided]) -> str:
    """The SHA-256 of a decision log."""
    return _digest("".join(f"{line}\n" for line in decision_lines(passes)).encode())


def decisions_digest(path: Path) -> str:
    """The SHA-256 of the decision log that an event log gives."""
    with path.open(encoding="utf-8") as file:
        lines = replay_log(line.rstrip("\n") for line in file)
    return _digest("".join(f"{line}\n" for line in lines).encode())


def _decided_elsewhere(path: Path, seed: str) -> str:
    command = [sys.executable, "-m", "bench.golden", str(path)]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "platform")))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise BenchError(done.stderr[-500:])
    return done.stdout.strip()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- The traces ---------------------------------------------------------------------------------------------------------


def _philly(folder: Path, first: int) -> Scene:
    options: Any = SimpleNamespace(traces=folder, nodes_share=0.25, jobs=first, stretch=0.05)
    nodes = tenancy.nodes_of(options)
    state, arrivals, _ = tenancy.scene(tenancy.entries_of(options, nodes), nodes, 1_800, Policy())
    return state, arrivals, 30


def _openb(folder: Path, first: int) -> Scene:
    """Pods in the order in which they were made, on every eighth node, so that some wait."""
    nodes = sorted(rows(folder, "openb_node_list_gpu_node", packing.WHERE), key=lambda row: row["sn"])[::8]
    machines = tuple(
        Machine(row["sn"], 0, int(row["cpu_milli"]), int(row["memory_mib"]) << 20, int(row["gpu"]), row["model"]) for row in nodes
    )
    pods = sorted(rows(folder, "openb_pod_list_default", packing.WHERE), key=lambda row: (int(row["creation_time"]), row["name"]))
    whole = total([Resources(machine.cpu_millis, machine.memory_bytes, machine.gpus * WHOLE_MILLIS) for machine in machines])
    state = _one_queue(machines, whole, PoolRules(runners_up=0, shares=True), Policy())
    arrivals = [
        Arrival(
            JobAsk(row["name"], 1, GangAsk((RoleAsk("pod", packing.ask_of(row), 1, 1),)), (0,), int(row["creation_time"])),
            max(1, int(float(row["deletion_time"] or 0)) - int(row["creation_time"])),
        )
        for row in pods[:first]
    ]
    return state, arrivals, 0


def _hpc2n(folder: Path, first: int) -> Scene:
    lines, processors = reserved_starts.log_of(folder, "hpc2n_first3k.swf")[:first], 240
    arrivals = [
        Arrival(
            JobAsk(
                f"{line.number:06}", 1, reserved_starts.cores(line.processors), (0,), line.submitted_at, max_runtime=line.asked
            ),
            max(1, line.runs),
        )
        for line in lines
        if 0 < line.processors <= processors
    ]
    return reserved_starts.a_state(processors), arrivals, 0


def _one_queue(machines: Sequence[Machine], whole: Resources, rules: PoolRules, policy: Policy) -> State:
    root = uuid.UUID(int=2)
    return State(
        at=0,
        pools=(Pool(POOL, "pool", rules),),
        machines=tuple(machines),
        queues=(LimitedQueue(root, None, "root"), LimitedQueue(uuid.UUID(int=3), root, "all")),
        capacities=(Capacity(POOL, "pool", whole),),
        policy=policy,
    )


SCENES: dict[str, Callable[[Path, int], Scene]] = {"philly": _philly, "openb": _openb, "hpc2n": _hpc2n}

if __name__ == "__main__":
    print(decisions_digest(Path(sys.argv[1])))
