"""Too few file descriptors, too few connections to the database: refused with words or at the door, healed without a restart."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.builders.live import LivePlatform, LiveUser, running_platform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

SMALL = {"cpu": 1, "memory": "64Mi"}
REFUSALS = {429, 503}


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    with running_platform() as made:
        yield made


def start_with_few_descriptors(platform: LivePlatform, *, spare: int) -> None:
    """Start it anew with room for so few files more than it needs by itself; its own limit is what it inherits from us."""
    assert platform.process is not None
    wanted = len(os.listdir(f"/proc/{platform.process.pid}/fd")) + spare
    assert platform.stop() == 0
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, before[1]))
    try:
        platform.start_unready()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    platform.wait_ready()


@contextlib.contextmanager
def idle_connections(platform: LivePlatform, number: int) -> Iterator[None]:
    """Connections that say nothing."""
    with contextlib.ExitStack() as held:
        for _ in range(number):
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_connection(("127.0.0.1", platform.port), timeout=2))
        yield


def test_without_file_descriptors_it_refuses_and_heals_and_no_job_is_stuck(platform: LivePlatform) -> None:
    user = platform.operator
    start_with_few_descriptors(platform, spare=25)
    assert platform.process is not None
    told = user.make_volume("told")
    mounts = [{"volume": "told", "path": "/told"}]
    goes_on = "while ! test -e /told/enough; do sleep 0.05; done; echo done"
    job = user.submit({"command": goes_on, "mounts": mounts, "resources": SMALL}, wait=["running"])
    answers: list[int | str] = []
    with idle_connections(platform, 100):
        for _ in range(5):
            caller = LiveUser(platform, platform.token, tenant=user.tenant)
            caller.http.timeout = httpx2.Timeout(5)
            try:
                answers.append(
                    caller.request("POST", "/jobs", json={"spec": {"command": "true", "resources": SMALL}}).status_code
                )
            except httpx2.TransportError as error:  # Refused at the door: there was no descriptor to take it with.
                answers.append(type(error).__name__)
            finally:
                caller.close()
    assert all(isinstance(answer, str) or answer in {200, 201, *REFUSALS} for answer in answers), answers
    wait_until(lambda: is_well(platform), "its recovery")
    (platform.folder_of(told) / "enough").touch(mode=0o666)
    assert platform.process.poll() is None
    assert user.wait(job)["state"] == "succeeded"
    assert user.logs(job) == "done\n"
    after = user.submit({"command": "true", "resources": SMALL}, wait=True)
    assert (after["state"], after["attempt"]) == ("succeeded", 1)
    assert_nothing_is_stuck(platform)


def test_a_throng_of_requests_is_answered_or_told_to_come_back(platform: LivePlatform) -> None:
    """More at once than there are threads and connections to the database: they wait for their turn, or are told to."""
    platform.restart()  # The test before may have left it with few descriptors.
    user, codes = platform.operator, []

    def ask() -> None:
        caller = LiveUser(platform, platform.token, tenant=user.tenant)
        for _ in range(4):
            with contextlib.suppress(httpx2.TransportError):
                codes.append(caller.request("GET", "/jobs", params={"limit": 50}).status_code)
        caller.close()

    threads = [threading.Thread(target=ask) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len(codes) >= len(threads)
    assert set(codes) <= {200, *REFUSALS}
    assert user.submit({"command": "true", "resources": SMALL}, wait=True)["state"] == "succeeded"
    assert_nothing_is_stuck(platform)


def is_well(platform: LivePlatform) -> bool:
    with contextlib.suppress(httpx2.HTTPError):
        return bool(platform.anonymous.request("GET", "//readyz").status_code == 200)
    return False


def assert_nothing_is_stuck(platform: LivePlatform) -> None:
    ended = "'succeeded', 'failed', 'stopped'"
    wait_until(lambda: platform.rows(f"SELECT count(*) FROM jobs_job WHERE state NOT IN ({ended})") == [(0,)], "every job's end")
    wait_until(lambda: platform.rows("SELECT count(*) FROM jobs_attempt WHERE NOT forgotten") == [(0,)], "the platform's rest")
    assert platform.rows("SELECT count(*) FROM tenants_reservation WHERE released_at IS NULL") == [(0,)]
    assert [path.name for path in Path(platform.data_dir).glob("engine/*/attempts/*")] == []
