"""K3: many running jobs on simulated nodes whose logs are all followed live: how long a printed line takes to every reader.

Each job runs one pod and prints nothing by itself. Each reader has a connection of its own to the API's stream of one job's log,
as `berth logs -f` has, and asks again for a stream that is refused or ends; all of them are in this process. Once all are
connected, lines are printed one after the other: a line is appended to the file that every container's log is, so it is printed
by all jobs at one moment. The time of a reader is from before the append until the bytes of the line have come to it; the worst
of all readers counts for each line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import time
from typing import Any
from urllib.parse import urlsplit

from bench.frame import Bench, BenchError
from bench.kubernetes_nodes import CLUSTER, SimulatedCluster, berth_on, cpu, memory, shown, simulated_cluster, spent, wait_for
from bench.load import drive, request
from bench.platforms import RunningPlatform

CONNECT_SECONDS_MAX = 180.0
CONNECTING = asyncio.Semaphore(20)  # Readers that ask for their stream at once.
LINE_SECONDS_MAX = 120.0
SETTLE_SECONDS = 5.0
PAUSE_SECONDS = (1.0, 5.0)  # Between two lines, by chance: no beat of the platform's falls together with it.
READ_BYTES = 64 * 1024
LATER = frozenset({0, 429, 502, 503, 504})  # 0: the connection broke before an answer came.
AGAIN_SECONDS = 1.0
TROUBLES_KEPT = 20
_ID = re.compile(rb"^id: (\S+)", re.MULTILINE)
SEED = 1
SPEC: dict[str, Any] = {"name": "prints", "cluster": CLUSTER, "command": ["true"], "resources": {"cpu": 1, "memory": "64Mi"}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--logs", type=int, default=500, help="running jobs, each with a reader; default 500")
    parser.add_argument("--lines", type=int, default=10, help="lines printed by all, one after the other; default 10")
    parser.add_argument("--nodes", type=int, default=50, help="simulated nodes of 64 cores and 110 pods; default 50")
    parser.add_argument("--pod-profile", choices=["embedded", "production"], default="production", help="Berth's profile")


def run(options: argparse.Namespace, bench: Bench) -> None:
    with (
        simulated_cluster(nodes=options.nodes, runs_on=True) as cluster,
        berth_on(cluster, profile=options.pod_profile, nodes=options.nodes) as berth,
    ):
        jobs = _start(berth, bench, options.logs)
        before, asked, began = cpu(cluster, berth), cluster.requests(), time.monotonic()
        worst = asyncio.run(_follow_all(cluster, berth, bench, jobs, options.lines))
        passed = time.monotonic() - began
        used = spent(before, cpu(cluster, berth), per=1_000 * passed)
        note = f"{options.logs} readers, {options.lines} lines, {options.pod_profile}"
        bench.record("worst_seconds", worst)
        bench.record("cpu_cores", used)
        bench.record("memory_mib", memory(cluster, berth))
        bench.record("requests_per_second", {name: n / passed for name, n in (cluster.requests() - asked).most_common()})
        bench.say(f"CPU while they follow, in cores: {shown(used, '')}")
        bench.figure("line-to-all", max(worst), "s", accept=5, less_is_better=True, note=note)
        bench.figure("line-to-all-median", sorted(worst)[len(worst) // 2], "s", less_is_better=True, note=note)
        bench.figure("follow-cpu", used["berth"], "cores", less_is_better=True, note=note)
        bench.figure("follow-cpu-api-server", used["kube-apiserver"], "cores", less_is_better=True)


def _start(berth: RunningPlatform, bench: Bench, count: int) -> list[str]:
    body = json.dumps({"spec": SPEC, "tenant": berth.tenant, "items": [{"name": f"prints-{each}"} for each in range(count)]})
    parts = iter([request("POST", "/api/v1/jobs:batch", token=berth.token, body=body.encode())])
    outcome = drive(berth.url, lambda _: next(parts, None), clients=1, wanted=201)
    if outcome.errors:
        raise BenchError(f"submissions failed: {dict(outcome.errors)}")
    wait_for(berth, bench, "SELECT count(*) FROM jobs_attempt WHERE state = 'running'", count, "jobs run")
    return [str(row[0]) for row in berth.rows("SELECT id FROM jobs_job WHERE state = 'running'")]


async def _follow_all(
    cluster: SimulatedCluster, berth: RunningPlatform, bench: Bench, jobs: list[str], lines: int
) -> list[float]:
    """For each line, the seconds until the last reader had it."""
    readers = [_Reader(berth, job) for job in jobs]
    following = [asyncio.ensure_future(reader.follow()) for reader in readers]
    try:
        await _connect_all(readers, bench)
        await asyncio.sleep(SETTLE_SECONDS)
        dice, offset, worst = random.Random(SEED), 0, []
        for number in range(lines):
            line = f"line {number:06} of what all jobs print\n".encode()
            waits = [reader.expect(line.strip()) for reader in readers]
            began = time.monotonic()
            cluster.print_line("O", offset, line)
            offset += len(line)
            await _first_failure(following, asyncio.wait(waits, timeout=LINE_SECONDS_MAX))
            seconds = sorted(wait.result() - began for wait in waits if wait.done())
            if len(seconds) < len(readers):
                left = len(readers) - len(seconds)
                raise BenchError(f"{left} of {len(readers)} readers have no line {number} after {LINE_SECONDS_MAX:.0f} s")
            worst.append(seconds[-1])
            half = seconds[len(seconds) // 2]
            bench.say(f"line {number}: {seconds[0]:.2f} to {seconds[-1]:.2f} s, half of all within {half:.2f} s")
            await asyncio.sleep(dice.uniform(*PAUSE_SECONDS))
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        _tell_troubles(bench, readers)
    return worst


async def _connect_all(readers: list[_Reader], bench: Bench) -> None:
    """Until each has its stream. Raises BenchError with the first refusal where that takes too long."""
    began = time.monotonic()
    while (connected := sum(reader.is_connected for reader in readers)) < len(readers):
        if time.monotonic() - began > CONNECT_SECONDS_MAX:
            why = next((trouble for reader in readers for trouble in reader.troubles), "no refusals")
            raise BenchError(f"{connected} of {len(readers)} readers follow after {CONNECT_SECONDS_MAX:.0f} s; {why}")
        bench.progress(f"{connected} of {len(readers)} readers follow")
        await asyncio.sleep(0.5)
    bench.record("connect_seconds", time.monotonic() - began)


async def _first_failure(following: list[asyncio.Task[None]], waiting: Any) -> None:
    """Wait, and raise what made a reader give up meanwhile."""
    await waiting
    for task in following:
        if task.done():
            task.result()


def _tell_troubles(bench: Bench, readers: list[_Reader]) -> None:
    """Streams that were refused or ended, after which their readers asked again."""
    troubles = [trouble for reader in readers for trouble in reader.troubles]
    bench.record("troubles", troubles[:TROUBLES_KEPT])
    bench.figure("streams-broken", len(troubles), "", less_is_better=True, note=troubles[0][:200] if troubles else "")


class _Reader:
    """Follows the log of a job as the client does: what is refused for now, or breaks, is asked for again from the last place."""

    def __init__(self, berth: RunningPlatform, job: str) -> None:
        self._place, self._token, self._job = urlsplit(berth.url), berth.token, job
        self._buffer = b""
        self._last_id = ""
        self._wanted = b""
        self._has_it: asyncio.Future[float] | None = None
        self.is_connected = False
        self.troubles: list[str] = []

    def expect(self, text: bytes) -> asyncio.Future[float]:
        """When this text came, by the monotonic clock."""
        self._wanted, self._has_it = text, asyncio.get_running_loop().create_future()
        return self._has_it

    async def follow(self) -> None:
        """Until it is cancelled. Raises BenchError where the stream is refused for good."""
        while True:
            async with CONNECTING:
                opened = await self._connect()
            if opened is not None:
                self.is_connected = True
                try:
                    await self._read(opened[0])
                finally:
                    opened[1].close()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """None: it was refused for now."""
        source, sink = await asyncio.open_connection(self._place.hostname, self._place.port)
        headers = [("Accept", "text/event-stream"), *([("Last-Event-ID", self._last_id)] if self._last_id else [])]
        sink.write(request("GET", f"/api/v1/jobs/{self._job}/logs/stream?attempt=1", token=self._token, headers=headers))
        status = 0
        answer = b""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            answer = await source.readuntil(b"\r\n\r\n")
            status = int(answer.split(b" ", 2)[1])
            if status == 200:
                return source, sink
            answer = await source.read(READ_BYTES)
        sink.close()
        self.troubles.append(f"refused: {status} {answer.decode(errors='replace')}")
        if status not in LATER:
            raise BenchError(f"a stream of a log was {self.troubles[-1]}")
        return None

    async def _read(self, source: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while part := await source.read(READ_BYTES):
                self._buffer = (self._buffer + part)[-READ_BYTES:]
                if ids := _ID.findall(self._buffer):
                    self._last_id = ids[-1].decode()
                if self._has_it is not None and not self._has_it.done() and self._wanted in self._buffer:
                    self._has_it.set_result(time.monotonic())
        self.troubles.append(f"ended: {self._buffer[-500:].decode(errors='replace')}")
