"""The production profile on servers of its own that may be broken, with a client that never gives up and a history that is kept.

One for all tests that break it; each heals what it broke and then has everything checked that happened so far.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders.breakable import BreakableServers, breakable_servers
from tests.builders.live import LivePlatform, wait_until
from tests.chaos import watching
from tests.chaos.clients import Client, Tally
from tests.chaos.fleet import Fleet, is_stopped
from tests.chaos.remains import read_remains
from tests.chaos.rest import look, stuck, wait_for_rest
from tests.histories.checker import check
from tests.histories.records import HistoryFile, read_history
from tests.histories.report import Report

REST_SECONDS = 150.0  # Lease, sweep and a loaded machine; an idle one needs a few seconds.
CEILING_MILLIS = 6_000


@dataclass
class Ground:
    """What a test breaks, and what it asks afterwards."""

    servers: BreakableServers
    platform: LivePlatform
    client: Client
    history: HistoryFile
    fleet: Fleet

    def submit(self, *, seconds: float = 0.2, lines: int = 3, succeeds_at: int = 1, **more: Any) -> str:
        """A job that leaves its witness; the client asks until it is promised."""
        environment = {"SECONDS_OF_WORK": str(seconds), "LINES": str(lines), "SUCCEEDS_AT": str(succeeds_at)}
        spec = {**self.client.spec(), "env": environment, "resources": {"cpu": 1, "memory": "32Mi"}, **more}
        [job] = self.client.submit("/jobs", {"spec": spec})
        return job

    def state(self, job: str) -> str:
        return str(self.platform.rows(f"SELECT state FROM jobs_job WHERE id = '{job}'")[0][0])

    def wait(self, job: str, *states: str) -> None:
        wait_until(lambda: self.state(job) in states, f"job {job} to be {' or '.join(states)}")

    def ready(self, role: str) -> list[int]:
        """Processes of this role that have said that they do their work."""
        with contextlib.suppress(OSError, ValueError):
            document = json.loads((self.platform.data_dir / "run" / "processes.json").read_text())
            return [pid for pid in document.get(role, []) if pid in document["ready"]]
        return []

    def frozen(self, role: str) -> int | None:
        """A process of this role that has stopped itself."""
        return next((pid for pid in self.platform.processes().get(role, ()) if is_stopped(pid)), None)

    def wait_frozen(self, role: str) -> int:
        wait_until(lambda: self.frozen(role) is not None, f"a {role} that stops")
        found = self.frozen(role)
        assert found is not None
        return found

    def thaw(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)

    def heal(self) -> None:
        """Everything runs again, whatever a test left."""
        self.platform.crash_at(None)
        self.servers.mend()
        self.fleet.thaw_all()

    def rest(self) -> None:
        """Wait until nothing is left to do."""
        platform = self.platform
        problem = wait_for_rest(lambda: look(platform), lambda: stuck(platform), seconds=REST_SECONDS, say=lambda line: None)
        assert not problem, problem

    def check(self) -> Report:
        """Decide over everything that happened since the platform was made."""
        self.rest()
        with tempfile.TemporaryDirectory() as folder:
            remains = list(read_remains(self.platform, Path(folder)))
        report = check([*read_history(self.history.path), *remains])
        assert report.holds, report.text()
        samples = watching.read_samples(self.platform)
        assert samples.samples > 0
        assert (samples.over, samples.drifted) == (0, 0)
        return report

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        text = self.platform.operator.request("GET", "//metrics").text
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name)


@contextlib.contextmanager
def broken_ground() -> Iterator[Ground]:
    """Made once; ended with whatever is left on it."""
    settings = {
        "BERTH_SERVER_PROFILE": "production",
        "BERTH_WORKER_PROCESSES": "3",
        "BERTH_SCHEDULER_PROCESSES": "3",
        "BERTH_WEB_PROCESSES": "1",
        "BERTH_OBSERVER_PROCESSES": "1",
        "BERTH_LEASE_SECONDS": "2",
        "BERTH_LEADERSHIP_SECONDS": "2",
        "BERTH_POLL_SECONDS": "0.5",
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        breakable_servers() as servers,
        servers.platform(**settings) as platform,
    ):
        watching.install_sampler(platform)
        user = platform.person("grounder", tenant="ground")
        volume = user.make_volume("witness")
        [queue] = [item for item in platform.operator.items("/queues", tenant=user.tenant) if item["name"] == "ground"]
        [pool] = platform.operator.items("/pools")
        limits = [{"pool": pool["id"], "cpu_millis": CEILING_MILLIS}]
        platform.operator.api("PUT", f"/queues/{queue['id']}/limits", limits)
        history = HistoryFile(Path(folder) / "history.jsonl")

        def tell(source: str, event: str, **facts: Any) -> None:
            history.add(time.time(), source, event, **facts)

        pulse = watching.Pulse(tell)
        pulse.start()
        client = Client(
            1, seed=1, user=user, volume=volume["name"], rate=1.0, tally=Tally(), tell=tell, stop=threading.Event()
        )  # fmt: skip
        try:
            yield Ground(servers, platform, client, history, Fleet(platform))
        finally:
            client.http.close()
            pulse.stopping.set()
            pulse.join(30)
            history.close()
