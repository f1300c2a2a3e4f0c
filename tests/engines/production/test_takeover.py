"""Two of each process; under load one after another dies or sleeps, and nobody who submitted or waits for a job notices.

The leadership lease is the product's own, ten seconds, so that what is measured here is what an installation has.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import berth
from tests.builders.live import Json, LivePlatform, LiveUser, running_platform, wait_until
from tests.builders.watch import Watch

pytestmark = [pytest.mark.engines, pytest.mark.alone, pytest.mark.database, pytest.mark.timeout(600)]

LEADERSHIP_SECONDS = "10"
TAKEOVER_SECONDS = 15.0
CLIENTS = 3
PAUSE_SECONDS = 0.7  # Between two submissions of one client: a load that two cores carry beside the processes that start.
SMALL = {"cpu": 1, "memory": "64Mi"}
LINES = 200
TICKER = ["/usr/bin/python3", "-c", f"import time\nfor n in range({LINES}): print(n, flush=True); time.sleep(0.25)"]


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    with running_platform(BERTH_SERVER_PROFILE="production", BERTH_LEADERSHIP_SECONDS=LEADERSHIP_SECONDS) as made:
        yield made


class Submitter(threading.Thread):
    """Submits one job after another; sends each again until it is answered, and then once more as who lost the answer."""

    def __init__(self, user: LiveUser, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.user = user
        self.over = stop
        self.acknowledged: list[str] = []
        self.failure: BaseException | None = None
        self.http = httpx2.Client(base_url=user.platform.url, headers=dict(user.http.headers), timeout=30, trust_env=False)

    def run(self) -> None:
        try:
            while not self.over.wait(PAUSE_SECONDS):
                key = uuid.uuid4().hex
                first, again = self._send(key), self._send(key)
                assert first == again, "the same submission made two jobs"
                self.acknowledged.append(first)
        except BaseException as failure:
            self.failure = failure
        finally:
            self.http.close()

    def _send(self, key: str) -> str:
        body = {"spec": {"command": "echo ran", "resources": SMALL}, **self.user.in_tenant}
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx2.TransportError):
                answer = self.http.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": key})
                if answer.is_success:
                    return str(answer.json()["id"])
                assert answer.status_code in (429, 500, 502, 503), answer.text[:500]
            assert time.monotonic() < deadline, "no answer to a submission for a minute"
            time.sleep(0.1)


class Follower(threading.Thread):
    """Follows a log live to its end."""

    def __init__(self, platform: LivePlatform, job: Json, folder: Path) -> None:
        super().__init__(daemon=True)
        self.platform, self.job, self.folder = platform, job, folder
        self.lines: list[str] = []

    def run(self) -> None:
        operator = self.platform.operator
        none = self.folder / "none.toml"
        with berth.Client(self.platform.url, self.platform.token, tenant=operator.tenant, config_path=none) as client:
            self.lines += [line.text.rstrip("\n") for line in client.jobs.logs(self.job["id"], follow=True)]


@contextlib.contextmanager
def load(user: LiveUser) -> Iterator[list[Submitter]]:
    """Submissions while the block runs."""
    stop = threading.Event()
    clients = [Submitter(user, stop) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        stop.set()
        for client in clients:
            client.join(90)


def leases_of(platform: LivePlatform, pid: int) -> list[str]:
    return [row[0] for row in platform.rows(f"SELECT name FROM reconciling_lease WHERE holder LIKE '%:{pid}'")]


def leader_of(platform: LivePlatform, role: str) -> int:
    """Who leads what this role does, where one leads; otherwise the first."""
    pids = platform.processes()[role]
    return max(pids, key=lambda pid: len(leases_of(platform, pid)))


def replace_killed(platform: LivePlatform, role: str) -> tuple[float, float]:
    """kill -9 the leader of a role; seconds until others hold what it led, and until another process is ready in its place."""
    killed = leader_of(platform, role)
    with Watch() as watch:
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not leases_of(platform, killed), f"somebody else leads what the {role} {killed} led")
        led = watch.seconds
        wait_until(lambda: killed not in platform._process_file().get(role, []), f"the end of the {role} {killed}")
        wait_until(platform._are_all_ready, f"another {role}", timeout=240)  # A loaded machine; an idle one needs three.
        return led, watch.seconds


def check_jobs(platform: LivePlatform, clients: list[Submitter]) -> int:
    """Every acknowledged job succeeded in its one run; how many there were."""
    for client in clients:
        assert not client.is_alive()
        assert client.failure is None, client.failure
    jobs = [job for client in clients for job in client.acknowledged]
    assert len(set(jobs)) == len(jobs)
    for job in jobs:
        assert platform.wait(job)["attempt"] == 1
    runs = dict(platform.rows("SELECT job_id::text, count(*) FROM jobs_attempt GROUP BY job_id"))
    assert {job: runs.get(job) for job in jobs} == dict.fromkeys(jobs, 1)
    [(stored,)] = platform.rows("SELECT count(*) FROM jobs_job")
    assert stored == len(runs), "a submission that was sent twice made two jobs"
    return len(jobs)


def test_any_process_may_be_killed_and_no_job_is_disturbed(platform: LivePlatform, tmp_path: Path) -> None:
    user = platform.operator
    long_jobs = [user.submit({"command": TICKER, "resources": SMALL}, wait=["running"]) for _ in range(2)]
    follower = Follower(platform, long_jobs[0], tmp_path)
    follower.start()
    figures = {}
    with load(user) as clients:
        for role in platform.processes():
            if role != "supervisor":
                led, whole = replace_killed(platform, role)
                figures[role] = (led, whole)
                print(f"{role}: led again after {led:.1f} s, another one ready after {whole:.1f} s")
    for job in long_jobs:
        assert user.wait(job)["state"] == "succeeded"
        assert user.job(job)["attempt"] == 1
    follower.join(120)
    assert follower.lines == [str(number) for number in range(LINES)]
    print(f"{check_jobs(platform, clients)} jobs acknowledged, each ran once")
    assert max(led for led, _ in figures.values()) < TAKEOVER_SECONDS


def test_a_scheduler_that_slept_past_its_lease_wakes_and_changes_nothing(platform: LivePlatform) -> None:
    wait_until(lambda: platform.leader() in platform.processes()["scheduler"], "a scheduler that leads")
    asleep = platform.leader()
    with load(platform.operator) as clients, Watch() as watch:
        os.kill(asleep, signal.SIGSTOP)
        try:
            wait_until(lambda: platform.leader() not in (0, asleep), "another leader")
            seconds = watch.seconds
            leader = platform.leader()
            job = platform.submit({"command": "echo ran", "resources": SMALL}, wait=True)
        finally:
            os.kill(asleep, signal.SIGCONT)
        wait_until(
            lambda: any(entry["lease"] == "scheduler" for entry in platform.log_events("leadership_lost")),
            "the word of the woken scheduler that it leads no more",
        )
        assert platform.leader() == leader
        assert platform.wait(job)["attempt"] == 1
    check_jobs(platform, clients)
    assert platform.leader() == leader
    assert asleep in platform.processes()["scheduler"]
    print(f"scheduler asleep: led again after {seconds:.1f} s")
    assert seconds < TAKEOVER_SECONDS
