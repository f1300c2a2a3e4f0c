"""Two releases at once on one database, as a rolling upgrade has them: jobs go through both, each runs once, none is lost."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.builders.live import Json, LivePlatform, LiveUser, free_port, running_platform, wait_until
from tests.builders.operating import manage, settings_of

pytestmark = [pytest.mark.engines, pytest.mark.database, pytest.mark.timeout(420)]

BESIDE = Path(__file__).with_name("beside.py")
JOBS = 24


class Beside:
    """The embedded server of the release before, beside a platform of the present one. It asks that one's launcher."""

    def __init__(self, platform: LivePlatform, release: Path) -> None:
        self.port = free_port()
        self.log = platform.place / "beside.log"
        script = platform.place / "beside.py"
        script.write_text(BESIDE.read_text())
        script.chmod(0o644)
        environment = settings_of(
            platform, BERTH_PORT=str(self.port), BERTH_LOCAL_CLUSTER="0", PYTHONUNBUFFERED="1"
        )  # The launcher belongs to the platform; everything else of the release before is at work.
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(script), str(release)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment, start_new_session=True,
            )  # fmt: skip
        self.operator = LiveUser(platform, platform.token, tenant=platform.operator.tenant)
        self.operator.http = httpx2.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers=self.operator.http.headers, timeout=60, trust_env=False
        )

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4_000:]
        with contextlib.suppress(httpx2.HTTPError):
            return bool(self.operator.request("GET", "//readyz").status_code == 200)
        return False

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)
        self.operator.close()


@pytest.fixture
def both(release_before: Path) -> Iterator[tuple[LivePlatform, Beside]]:
    """The present release on the tables that it migrated, and the release before beside it."""
    if not os.environ.get("BERTH_DATABASE_URL"):
        pytest.skip("two servers on one database need PostgreSQL")
    with running_platform(release=release_before) as platform:
        platform.submit({"name": "first", "command": "true"}, wait=True)
        platform.stop()
        platform.release = None
        platform.start()
        beside = Beside(platform, release_before)
        try:
            wait_until(beside.is_ready, "the release before")
            yield platform, beside
        finally:
            beside.end(signal.SIGKILL)


def _spec(name: str, volume: Json, *, seconds: float = 0.3) -> Json:
    command = f"echo start {name} >> /witness/log; sleep {seconds}; echo {name}; echo stop {name} >> /witness/log"
    mounts = [{"volume": volume["name"], "path": "/witness"}]
    return {"name": name, "command": command, "mounts": mounts, "resources": {"cpu": 1, "memory": "32Mi"}}


def _place(platform: LivePlatform, volume: Json) -> Path:
    return Path(platform.rows(f"SELECT location FROM storage_volume WHERE name = '{volume['name']}'")[0][0])


@pytest.mark.capability("120", "Two releases at once on one database: jobs go through both, each runs once, no event is lost")
def test_jobs_go_through_both_releases_and_survive_the_end_of_either(both: tuple[LivePlatform, Beside]) -> None:
    platform, beside = both
    present, before = platform.operator, beside.operator
    assert (present.api("GET", "/info")["version"], before.api("GET", "/info")["version"]) == (_present(), "0.1.0")
    volume = present.make_volume(f"witness-{uuid.uuid4().hex[:8]}")

    def submit(number: int) -> Json:
        user = (present, before)[number % 2]
        return user.submit(_spec(f"job-{number}", volume))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = list(pool.map(submit, range(JOBS)))
    gang = before.submit({"name": "gang", "roles": {"worker": {"replicas": 2, "command": "true"}}})
    array = present.submit({"name": "array", "command": "true", "array": {"size": 3}})
    stopped = before.submit(_spec("stopped", volume, seconds=600))
    wait_until(lambda: present.job(stopped)["state"] == "running", "a job of the one, seen by the other")
    present.stop(stopped)
    for job in (*jobs, gang, array):
        assert before.wait(job)["state"] == "succeeded"
    assert before.wait(stopped)["state"] == "stopped"
    assert {present.logs(job) for job in jobs} == {f"job-{number}\n" for number in range(JOBS)}

    # Whoever of them dies, the other one takes over what it did, and what it had begun.
    more = [submit(number) for number in range(JOBS, JOBS + 8)]
    long = before.submit(_spec("long", volume, seconds=4))
    platform.kill()
    again = before.submit(_spec("again", volume))
    time.sleep(0.5)  # The launcher died with its platform: what the release before tries now waits for the next one.
    platform.start()
    more += [submit(number) for number in range(JOBS + 8, JOBS + 16)]
    beside.end(signal.SIGKILL)
    for job in (*more, long, again):
        ended = present.wait(job)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1)

    counts = Counter((_place(platform, volume) / "log").read_text().split("\n"))
    names = [*(f"job-{number}" for number in range(JOBS + 16)), "long", "again"]
    assert {name: (counts[f"start {name}"], counts[f"stop {name}"]) for name in names} == dict.fromkeys(names, (1, 1))
    seqs = [row[0] for row in platform.rows("SELECT seq FROM activity_event ORDER BY seq")]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert "The chain holds" in manage(platform, "verify_audit").stdout


def _present() -> str:
    from kernel.version import VERSION

    return VERSION
