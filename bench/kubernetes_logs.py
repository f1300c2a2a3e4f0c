"""K3: many running jobs on simulated nodes whose logs are all followed live: how long a printed line takes to every reader.

Each job runs one pod and prints nothing by itself. Each reader has a connection of its own to the API's stream of one job's log,
as `berth logs -f` has, and all of them are in this process. Once all are connected, lines are printed one after the other: a line
is appended to the file that every container's log is, so it is printed by all jobs at one moment. The time of a reader is from
before the append until the bytes of the line have come by its connection; the worst of all readers counts for each line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from typing import Any
from urllib.parse import urlsplit

from bench.frame import Bench, BenchError
from bench.kubernetes_nodes import CLUSTER, SimulatedCluster, berth_on, cpu, memory, shown, simulated_cluster, spent, wait_for
from bench.load import drive, request
from bench.platforms import RunningPlatform

CONNECT_SECONDS_MAX = 180.0
CONNECTING = 20  # Readers that ask for their stream at once.
LINE_SECONDS_MAX = 120.0
SETTLE_SECONDS = 5.0
PAUSE_SECONDS = (1.0, 5.0)  # Between two lines, by chance: no beat of the platform's falls together with it.
READ_BYTES = 64 * 1024
LATER = frozenset({429, 502, 503, 504})
REFUSED_SECONDS = 1.0
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
    await _connect_all(readers, bench)
    refusals = [answer for reader in readers for answer in reader.refusals]
    bench.record("refusals", refusals)
    bench.say(f"{len(readers)} readers are connected, after {len(refusals)} refusals {refusals[:1] or ''}")
    await asyncio.sleep(SETTLE_SECONDS)
    dice, offset, worst = random.Random(SEED), 0, []
    for number in range(lines):
        line = f"line {number:06} of what all jobs print\n"
        waits = [asyncio.ensure_future(reader.wait_for(line.strip().encode())) for reader in readers]
        began = time.monotonic()
        cluster.print_line("O", offset, line.encode())
        offset += len(line.encode())
        done, late = await asyncio.wait(waits, timeout=LINE_SECONDS_MAX)
        broken = [error for task in done if (error := task.exception()) is not None]
        if late or broken:
            raise BenchError(
                f"{len(late)} of {len(readers)} readers have no line {number} after {LINE_SECONDS_MAX:.0f} s; {broken[:1]}"
            )
        seconds = sorted(task.result() - began for task in done)
        worst.append(seconds[-1])
        bench.say(
            f"line {number}: {seconds[0]:.2f} to {seconds[-1]:.2f} s, half of all within {seconds[len(seconds) // 2]:.2f} s"
        )
        await asyncio.sleep(dice.uniform(*PAUSE_SECONDS))
    for reader in readers:
        reader.close()
    return worst


async def _connect_all(readers: list[_Reader], bench: Bench) -> None:
    """Each has its stream, some asking at once. Raises BenchError with the first refusal where that takes too long."""
    began, connected, places = time.monotonic(), 0, asyncio.Semaphore(CONNECTING)

    async def connect(reader: _Reader) -> None:
        nonlocal connected
        async with places:
            await reader.connect()
        connected += 1
        bench.progress(f"{connected} of {len(readers)} readers are connected")

    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            await asyncio.gather(*map(connect, readers))
    except TimeoutError:
        refusals = [answer for reader in readers for answer in reader.refusals]
        why = f"; {len(refusals)} refusals, the first: {refusals[0]}" if refusals else ""
        raise BenchError(f"{connected} of {len(readers)} readers are connected after {CONNECT_SECONDS_MAX:.0f} s{why}") from None
    bench.record("connect_seconds", time.monotonic() - began)


class _Reader:
    """One connection that follows the log of a job."""

    def __init__(self, berth: RunningPlatform, job: str) -> None:
        self._place, self._token, self._job = urlsplit(berth.url), berth.token, job
        self._buffer = b""
        self.refusals: list[str] = []

    async def connect(self) -> None:
        """Returns when the stream has been accepted; what is refused for now is asked for again, as the client does."""
        while True:
            self._from, self._to = await asyncio.open_connection(self._place.hostname, self._place.port)
            accept = [("Accept", "text/event-stream")]
            self._to.write(request("GET", f"/api/v1/jobs/{self._job}/logs/stream?attempt=1", token=self._token, headers=accept))
            await self._to.drain()
            head = (await self._from.readuntil(b"\r\n\r\n")).decode()
            status = int(head.split(" ", 2)[1])
            if status == 200:
                return
            answer = f"{status} {(await self._from.read(READ_BYTES)).decode(errors='replace')}"
            self._to.close()
            if status not in LATER:
                raise BenchError(f"a stream of a log was refused: {answer}")
            self.refusals.append(answer)
            await asyncio.sleep(REFUSED_SECONDS)

    async def wait_for(self, text: bytes) -> float:
        """When this text had come, by the monotonic clock. Raises BenchError when the stream ends before."""
        while text not in self._buffer:
            part = await self._from.read(READ_BYTES)
            if not part:
                raise BenchError("a stream of a log ended")
            self._buffer = (self._buffer + part)[-READ_BYTES:]
        return time.monotonic()

    def close(self) -> None:
        self._to.close()
