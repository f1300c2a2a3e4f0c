"""P14: many live attempts that print: when the first line of each is in the store, and how far each stream is behind.

One platform with its local engine runs an array whose tasks print the time once a second, by a shell that starts no process for
it. How long the first line of a stream waited is the time of its first row less the time that the line itself says. How far a
stream is behind is how long its oldest line that is not stored yet has been waiting, in looks at all streams a second apart.

All of it is on one machine: tasks, platform and store share its cores, and the result says how busy it was.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.frame import Bench, BenchError
from bench.platforms import RunningPlatform, running_platform

LINE_BYTES = 18  # Seconds, a dot, microseconds and the end of the line.
PERIOD_SECONDS = 1.0
LOOK_SECONDS = 1.0
STALL_SECONDS_MAX = 180.0
# Bash prints the time and waits by itself: thousands of tasks that started a `sleep` each second would measure the kernel.
COMMAND = 'exec 3<> <(:); while :; do printf "%s\\n" "$EPOCHREALTIME"; read -rt 1 <&3; done'
MEMORY_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store has of one stream, by its rows."""

    attempt: str
    path: Path
    size_bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--streams", default="2000,5000", help="how many live attempts, in turns; default 2000,5000")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long streams are looked at once all print; default 60")
    parser.add_argument("--stream-profile", choices=["embedded", "production"], default="embedded", help="Berth's profile")


def run(options: argparse.Namespace, bench: Bench) -> None:
    for count in map(int, options.streams.split(",")):
        settings = {
            "BERTH_LOCAL_CPU_MILLIS": str(count * 1_000),
            "BERTH_LOCAL_MEMORY_BYTES": str(count * MEMORY_BYTES),
            "BERTH_LOCAL_ISOLATION": "none",  # The sandbox costs a process more a task, and nothing of it is in a stream's way.
        }
        with running_platform(profile=options.stream_profile, **settings) as berth:
            _measure(berth, bench, count, options.seconds)


def _measure(berth: RunningPlatform, bench: Bench, count: int, seconds: float) -> None:
    load_before = os.getloadavg()[0]
    spec = {
        "name": "prints",
        "command": ["/bin/bash", "-c", COMMAND],
        "resources": {"cpu": 1, "memory": MEMORY_BYTES},
        "array": {"size": count},
    }
    began = time.monotonic()
    job = berth.api("POST", "/jobs", {"spec": spec, "tenant": berth.tenant})
    _wait_until_all_print(berth, bench, count)
    bench.record(f"all_print_after_seconds_{count}", time.monotonic() - began)
    first = _first_waits(berth)
    cpu, looked_at = berth.cpu_seconds(), time.monotonic()
    lags: list[float] = []
    while time.monotonic() - looked_at < seconds:
        lags.append(max(_lags(berth)))
        bench.progress(f"{count} streams: at most {lags[-1]:.1f} s behind")
        time.sleep(LOOK_SECONDS)
    passed = time.monotonic() - looked_at
    used = sum(berth.cpu_seconds().values()) - sum(cpu.values())
    note = f"{count} streams, load {load_before:.0f} before and {os.getloadavg()[0]:.0f} at the end, {os.cpu_count()} cores"
    bench.record(f"first_line_seconds_{count}", first)
    bench.record(f"behind_seconds_{count}", lags)
    bench.figure(f"first-line-{count}", max(first), "s", accept=10, aim=3, less_is_better=True, note=note)
    bench.figure(f"behind-{count}", max(lags), "s", accept=5, aim=2, less_is_better=True, note=note)
    bench.figure(f"cpu-{count}", used / passed, "cores", less_is_better=True, note="all processes of the platform")
    berth.api("POST", f"/jobs/{job['id']}/stop", {"grace_seconds": 0})


def _wait_until_all_print(berth: RunningPlatform, bench: Bench, count: int) -> None:
    seen, seen_at = -1, time.monotonic()
    while (printing := int(berth.rows("SELECT count(*) FROM storage_attemptlog WHERE stored_bytes > 0")[0][0])) < count:
        if printing > seen:
            seen, seen_at = printing, time.monotonic()
        if time.monotonic() - seen_at > STALL_SECONDS_MAX:
            raise BenchError(f"{printing} of {count} streams are in the store, and no more for {STALL_SECONDS_MAX:.0f} s")
        bench.progress(f"{printing} of {count} streams are in the store")
        time.sleep(LOOK_SECONDS)


def _first_waits(berth: RunningPlatform) -> list[float]:
    """For each stream, how long its first line waited for the store."""
    rows = berth.rows("SELECT attempt_id, min(stored_at) FROM storage_logchunkindex GROUP BY attempt_id")
    stored_at = {_plain(attempt): _seconds(moment) for attempt, moment in rows}
    return [stored_at[stream.attempt] - _time_at(stream.path, 0) for stream in _streams(berth)]


def _lags(berth: RunningPlatform) -> Sequence[float]:
    """For each stream, how long its oldest line that is not stored has waited."""
    streams, now = _streams(berth), time.time()
    last = [_time_at(stream.path, stream.size_bytes - LINE_BYTES) for stream in streams]
    return [max(0.0, now - printed_at - PERIOD_SECONDS) for printed_at in last]


def _streams(berth: RunningPlatform) -> list[Stored]:
    rows = berth.rows(
        'SELECT s.attempt_id, l.job_id, l.tenant_id, s.role, s."index", s.file_bytes FROM storage_logstreamstate s '
        "JOIN storage_attemptlog l ON l.attempt_id = s.attempt_id WHERE s.stream = 'stdout' AND s.file_bytes > 0"
    )
    root = berth.data_dir / "logs"
    return [
        Stored(_plain(attempt), root / _dashed(tenant) / _dashed(job) / _dashed(attempt) / f"{role}-{index}.stdout", int(size))
        for attempt, job, tenant, role, index, size in rows
    ]


def _time_at(path: Path, position: int) -> float:
    with path.open("rb") as file:
        return float(os.pread(file.fileno(), LINE_BYTES, position))


def _plain(identifier: object) -> str:
    return str(identifier).replace("-", "")


def _dashed(identifier: object) -> str:
    text = _plain(identifier)
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _seconds(moment: object) -> float:
    """A stored time, as either database gives it."""
    found = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
