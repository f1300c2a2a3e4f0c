"""P12: memory of all processes of Berth: idle, and with a long queue, many nodes and a long history; slurmctld beside it.

Resident sizes are summed over the processes (pages that forked processes share are counted in each), proportional sizes
stand in the JSON file. The queue is an array whose children wait for a full machine; history is copies of a real job's row and
nodes are rows of a cluster that is switched off, both written into the database while the platform is down.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Mapping

from bench import slurm_peer
from bench.frame import Bench, BenchError
from bench.platforms import RunningPlatform, running_platform

MIB = 1024**2
SETTLE_SECONDS = 5.0  # Start-up garbage is gone by then, and every loop has gone round.
IDLE_SECONDS = 10.0
SLOT_MEMORY_BYTES = 16 * MIB
WAIT_SECONDS_MAX = 600.0
HISTORY_ROWS_AT_ONCE = 50_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pending", type=int, default=100_000, help="jobs that wait; default 100000, the most of one array")
    parser.add_argument("--nodes", type=int, default=5_000, help="nodes; default 5000")
    parser.add_argument("--history", type=int, default=100_000, help="jobs that have ended; default 100000, in full 1000000")
    parser.add_argument("--peer-pending", type=int, default=5_000, help="jobs in Slurm's queue; default 5000, 0 leaves Slurm out")
    parser.add_argument("--profiles", default="embedded,production", help="which profiles to measure")


def run(options: argparse.Namespace, bench: Bench) -> None:
    peers = _slurm(options, bench) if options.peer_pending else {}
    accepted = {"embedded": (400, 250), "production": (2_048, None)}
    for profile in options.profiles.split(","):
        if profile not in accepted:
            raise BenchError(f"there is no profile {profile}")
        accept, aim = accepted[profile]
        _idle(bench, profile, accept=accept, aim=aim, peers=peers)
    _loaded(options, bench, options.profiles.split(",")[0], peers)


def _idle(bench: Bench, profile: str, *, accept: float, aim: float | None, peers: Mapping[str, float]) -> None:
    bench.say(f"{profile}: idle")
    with running_platform(profile=profile) as berth:
        time.sleep(SETTLE_SECONDS)
        resident, _ = _measure(berth, bench, f"{profile}-idle")
        shown = {"slurmctld": peers["idle"]} if "idle" in peers else {}
        bench.figure(f"{profile}-idle", resident, "MiB", accept=accept, aim=aim, less_is_better=True, peers=shown)
        bench.figure(f"{profile}-idle-cpu", _idle_cpu(berth), "% of a core", less_is_better=True)


def _loaded(options: argparse.Namespace, bench: Bench, profile: str, peers: Mapping[str, float]) -> None:
    settings = {"BERTH_LOCAL_CPU_MILLIS": "1000", "BERTH_LOCAL_MEMORY_BYTES": str(4 * SLOT_MEMORY_BYTES)}
    with running_platform(profile=profile, **settings) as berth:
        template = _submit(berth, {"command": ["true"]})
        _wait(berth, f"SELECT count(*) FROM jobs_job WHERE id = '{_stored_id(berth, template)}' AND state = 'succeeded'", 1)
        berth.stop()
        bench.say(f"{profile}: writing {options.history} jobs of history and {options.nodes} nodes")
        _write_history(berth, bench, options.history)
        _write_nodes(berth, options.nodes)
        berth.start()
        _submit(berth, {"command": ["sleep", "100000"]})
        _wait(berth, "SELECT count(*) FROM jobs_job WHERE state = 'running'", 1)
        time.sleep(SETTLE_SECONDS)
        before, _ = _measure(berth, bench, f"{profile}-history-and-nodes")
        bench.say(f"{profile}: submitting {options.pending} jobs that wait")
        _submit(berth, {"command": ["true"], "array": {"size": options.pending}})
        waits = "SELECT count(*) FROM jobs_job WHERE state = 'queued' AND reason_code NOT IN ('', 'array', 'scheduling')"
        _wait(berth, waits, options.pending, bench=bench)
        time.sleep(SETTLE_SECONDS)
        after, _ = _measure(berth, bench, f"{profile}-loaded")
        bench.figure(f"{profile}-loaded", after, "MiB", accept=8_192, aim=4_096, less_is_better=True, note=_load_text(options))
        shown = {"slurmctld": peers["per_job"]} if "per_job" in peers else {}
        each = max(0.0, (after - before) * 1024 / options.pending)
        bench.figure(f"{profile}-per-pending-job", each, "KiB", accept=8, aim=2, less_is_better=True, peers=shown)
        bench.figure(f"{profile}-loaded-cpu", _idle_cpu(berth), "% of a core", less_is_better=True, note="nothing changes")


def _load_text(options: argparse.Namespace) -> str:
    return f"{options.pending} pending, {options.nodes} nodes, {options.history} in history"


def _measure(berth: RunningPlatform, bench: Bench, name: str) -> tuple[float, float]:
    """Resident and proportional size of everything, in MiB."""
    sizes = berth.memory_bytes()
    parts = {part: {"resident_mib": round(r / MIB, 1), "proportional_mib": round(p / MIB, 1)} for part, (r, p) in sizes.items()}
    bench.record(name, parts)
    shown = ", ".join(f"{part} {each['resident_mib']:.0f} MiB" for part, each in parts.items())
    bench.say(f"{name}: {shown}")
    return sum(r for r, _ in sizes.values()) / MIB, sum(p for _, p in sizes.values()) / MIB


def _idle_cpu(berth: RunningPlatform) -> float:
    """Per cent of a core that all processes use while nothing happens."""
    before, began = berth.cpu_seconds(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    after, seconds = berth.cpu_seconds(), time.monotonic() - began
    return 100 * sum(value - before.get(name, 0.0) for name, value in after.items()) / seconds


def _submit(berth: RunningPlatform, spec: dict[str, object]) -> str:
    asked = {"name": "memory", "resources": {"cpu": 1, "memory": SLOT_MEMORY_BYTES}, **spec}
    return str(berth.api("POST", "/jobs", {"spec": asked, "tenant": berth.tenant})["id"])


def _wait(berth: RunningPlatform, sql: str, count: int, *, bench: Bench | None = None) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while (found := berth.rows(sql)[0][0]) < count:
        if time.monotonic() > deadline:
            raise BenchError(f"{found} of {count} after {WAIT_SECONDS_MAX:.0f} s: {sql}")
        if bench is not None:
            bench.progress(f"{found} of {count} have been looked at")
        time.sleep(0.5)


def _stored_id(berth: RunningPlatform, job_id: str) -> str:
    return uuid.UUID(job_id).hex if berth.stores is None else job_id


def _write_history(berth: RunningPlatform, bench: Bench, count: int) -> None:
    """Copies of the one job that has ended, each with an id of its own."""
    on_sqlite = berth.stores is None
    columns = berth.columns("jobs_job")
    changed = {"id": "lower(hex(randomblob(16)))" if on_sqlite else "gen_random_uuid()", "attempt_id": "NULL"}
    names = ", ".join(f'"{column}"' for column in columns)
    values = ", ".join(changed.get(column, f'job."{column}"') for column in columns)
    series = (
        "(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows}) SELECT x FROM n)"
        if on_sqlite
        else "generate_series(1, {rows})"
    )
    ended = "(SELECT * FROM jobs_job WHERE state = 'succeeded' ORDER BY id LIMIT 1)"
    for start in range(0, count, HISTORY_ROWS_AT_ONCE):
        rows = min(HISTORY_ROWS_AT_ONCE, count - start)
        berth.execute(f"INSERT INTO jobs_job ({names}) SELECT {values} FROM {ended} AS job, {series.format(rows=rows)} AS many")
        bench.progress(f"{start + rows} of {count} jobs of history")


def _write_nodes(berth: RunningPlatform, count: int) -> None:
    """A cluster of another kind, switched off, with one pool of so many nodes: copies of this machine's rows."""
    on_sqlite = berth.stores is None
    cluster, pool = (uuid.uuid4().hex if on_sqlite else str(uuid.uuid4()) for _ in range(2))
    off = "0" if on_sqlite else "false"
    own = "lower(hex(randomblob(16)))" if on_sqlite else "gen_random_uuid()"
    plans: list[tuple[str, dict[str, str], int]] = [
        ("clusters_cluster", {"id": f"'{cluster}'", "name": "'far'", "kind": "'slurm'", "is_enabled": off}, 1),
        ("clusters_pool", {"id": f"'{pool}'", "cluster_id": f"'{cluster}'", "node_count": str(count)}, 1),
        ("clusters_node", {"id": own, "cluster_id": f"'{cluster}'", "pool_id": f"'{pool}'", "name": "'node-' || many.x"}, count),
    ]
    for table, changed, rows in plans:
        columns = berth.columns(table)
        names = ", ".join(f'"{column}"' for column in columns)
        values = ", ".join(changed.get(column, f'one."{column}"') for column in columns)
        series = (
            f"(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows}) SELECT x FROM n) AS many"
            if on_sqlite
            else f"generate_series(1, {rows}) AS many(x)"
        )
        first = f"(SELECT * FROM {table} ORDER BY created_at, id LIMIT 1) AS one"
        berth.execute(f"INSERT INTO {table} ({names}) SELECT {values} FROM {first}, {series}")


def _slurm(options: argparse.Namespace, bench: Bench) -> dict[str, float]:
    """What slurmctld holds idle, and for each job that waits."""
    with slurm_peer.slurm(slurm_peer.DEFAULTS, slots=32) as peer:
        idle = peer.controller_bytes()
        peer.fill()
        bench.say(f"slurmctld: submitting {options.peer_pending} jobs that wait")
        peer.submit(options.peer_pending)
        loaded = peer.controller_bytes()
        bench.record("slurm_version", peer.version)
        found = {"idle": idle / MIB, "per_job": (loaded - idle) / 1024 / options.peer_pending}
        bench.record("slurmctld", json.loads(json.dumps(found)))
        bench.say(f"slurmctld: {found['idle']:.1f} MiB idle, {found['per_job']:.1f} KiB a job")
        return found
