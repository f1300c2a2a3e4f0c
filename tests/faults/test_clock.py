"""Clocks that are set: by an hour, by a day, forth and back, on the platform's host and not on the database's.

The wall clock of the platform's processes is moved while they run (`time_machine`, from inside); the monotonic clock goes on, as
it does on a host whose wall clock is set. The database keeps the true time, as another host would, and so does the kernel, which
writes the times of files: libfaketime, which would move those too, breaks the sleeping of Python 3.11.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kernel import ids
from tests.builders.live import Json, LivePlatform, LiveUser, running_platform, wait_until

SMALL = {"cpu": 1, "memory": "64Mi"}
STEPS = {"+1h": 3_600, "-1h": -3_600, "+1d": 86_400, "-1d": -86_400}
# Runs in every process of the platform as it starts, and moves what its Python takes for the time.
SITE = """
import datetime, os, threading, time
import time_machine

moved = [0.0, None]

def move():
    with open(os.environ["TEST_CLOCK"]) as file:
        offset = float(file.read() or moved[0])
    if offset == moved[0]:
        return
    if moved[1] is not None:
        moved[1].stop()
        moved[1] = None
    moved[0] = offset
    if offset:
        wanted = datetime.datetime.fromtimestamp(time.time() + offset, datetime.timezone.utc)
        moved[1] = time_machine.travel(wanted, tick=True)
        moved[1].start()

def watch():
    pause = threading.Event()
    while not pause.wait(0.1):
        move()

move()
threading.Thread(target=watch, daemon=True).start()
"""


class Clock:
    """The wall clock of the platform's processes, as far as it is from the true one."""

    def __init__(self, platform: LivePlatform) -> None:
        site = platform.place / "site"
        site.mkdir(mode=0o755, exist_ok=True)
        (site / "sitecustomize.py").write_text(SITE)
        (site / "sitecustomize.py").chmod(0o644)
        self._file = platform.place / "clock"
        self.settings = {"PYTHONPATH": str(site), "TEST_CLOCK": str(self._file)}
        self.set(0)

    def set(self, seconds: float) -> None:
        """Set it so far off."""
        prepared = self._file.with_suffix(".new")
        prepared.write_text(str(seconds))
        prepared.chmod(0o644)
        prepared.rename(self._file)


@pytest.fixture(scope="module")
def clock(platform: LivePlatform) -> Clock:
    return Clock(platform)


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    # Leases that a busy machine does not lose, and that any of the steps would end if they were on the platform's own clock.
    with running_platform(BERTH_LEASE_SECONDS="20", BERTH_LEADERSHIP_SECONDS="20") as made:
        assert made.stop() == 0
        made.start(**Clock(made).settings)
        yield made


def counting(user: LiveUser) -> tuple[Json, Json]:
    volume = user.make_volume(f"witness-{uuid.uuid4().hex[:8]}")
    counts = "n=0; while [ $n -lt 50 ] || ! test -e /witness/enough; do echo $n; n=$((n+1)); sleep 0.1; done"
    command = f"echo start >> /witness/log; {counts}; echo stop >> /witness/log"
    mounts = [{"volume": volume["name"], "path": "/witness"}]
    job = user.submit({"name": "counting", "command": command, "mounts": mounts, "resources": SMALL}, wait=["running"])
    return job, volume


def say_enough(platform: LivePlatform, volume: Json) -> None:
    (platform.folder_of(volume) / "enough").touch(mode=0o666)


def host_says(platform: LivePlatform) -> datetime:
    """The time that the platform's own log lines carry."""
    line = platform.log_events("request")[-1]
    return datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00"))


def assert_times_are_sane(user: LiveUser, job: Json, *, began: datetime) -> None:
    """By the true clock, within the test: nothing before it began, nothing in the future, nothing ends before it starts."""
    now = datetime.now(UTC) + timedelta(seconds=2)
    found = user.job(job)
    times = [found["submitted_at"], found["started_at"], found["ended_at"]]
    moments = [datetime.fromisoformat(text.replace("Z", "+00:00")) for text in times]
    assert moments == sorted(moments)
    assert began - timedelta(seconds=2) <= moments[0]
    assert moments[-1] <= now
    for task in user.items(f"/jobs/{job['id']}/tasks"):
        started, ended = (datetime.fromisoformat(task[key].replace("Z", "+00:00")) for key in ("started_at", "ended_at"))
        assert began - timedelta(seconds=2) <= started <= ended <= now, task
    told = [item["at"] for item in user.items(f"/jobs/{job['id']}/events")]
    assert told == sorted(told), "a job's history is in the order in which it happened"


@pytest.mark.engines
@pytest.mark.database
@pytest.mark.parametrize("step", STEPS)
def test_a_clock_that_is_set_while_jobs_run_changes_nothing_for_them(step: str, platform: LivePlatform, clock: Clock) -> None:
    user = platform.operator
    clock.set(0)
    began = datetime.now(UTC)
    job, volume = counting(user)
    stopping = user.submit({"command": "exec sleep 1000", "resources": SMALL}, wait=["running"])
    lost_before = len(platform.log_events("leadership_lost"))
    clock.set(STEPS[step])
    off = timedelta(hours=1) if "h" in step else timedelta(days=1)

    def is_set() -> bool:
        user.api("GET", "/jobs")
        return abs(host_says(platform) - datetime.now(UTC)) > off / 2

    wait_until(is_set, "the platform's clock")
    beside = user.submit({"command": "echo beside", "resources": SMALL}, wait=True)
    assert (beside["state"], beside["attempt"]) == ("succeeded", 1)
    user.stop(stopping, grace_seconds=1)
    assert user.wait(stopping)["state"] == "stopped"
    clock.set(0)
    say_enough(platform, volume)
    ended = user.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    numbers = user.logs(job).splitlines()
    assert numbers == [str(number) for number in range(max(50, len(numbers)))]
    assert user.download(f"/volumes/{volume['id']}/content", path="log") == b"start\nstop\n"
    if platform.is_on_servers:  # SQLite has no clock but its host's: there the same holds for what is done, not for what is told.
        for started in (job, beside, stopping):
            assert_times_are_sane(user, started, began=began)
        assert len(platform.log_events("leadership_lost")) == lost_before, "leases live on the database's time"
    assert platform.rows("SELECT count(*) FROM tenants_reservation WHERE released_at IS NULL") == [(0,)]
    usage = user.items("/usage", group_by="job")
    assert all(value >= 0 for item in usage for value in item.values() if isinstance(value, (int, float)))


@pytest.mark.engines
@pytest.mark.database
@pytest.mark.parametrize("offset", ["+1d", "-1d"])
def test_a_platform_that_starts_with_a_wrong_clock_goes_on(offset: str, platform: LivePlatform, clock: Clock) -> None:
    if not platform.is_on_servers:
        pytest.skip("SQLite has no clock but its host's")
    user = platform.operator
    clock.set(0)
    job, volume = counting(user)
    platform.kill()
    clock.set(STEPS[offset])
    platform.start(**clock.settings)
    beside = user.submit({"command": "echo beside", "resources": SMALL}, wait=True)
    assert (beside["state"], beside["attempt"]) == ("succeeded", 1)
    say_enough(platform, volume)
    ended = user.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    assert user.download(f"/volumes/{volume['id']}/content", path="log") == b"start\nstop\n"
    ticket = user.api("POST", "/tickets", {})
    assert ticket
    clock.set(0)


# --- Where the clocks meet ------------------------------------------------------------------------------------------------


def test_ids_follow_the_databases_clock_and_never_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_followed", None)
    monkeypatch.setattr(ids, "_last_millis", 0)
    true = datetime(2026, 5, 1, tzinfo=UTC)
    ids.follow(true)
    first = ids.new_id()
    monkeypatch.setattr("kernel.ids.time.time_ns", lambda: 0)  # The host's clock is set to 1970.
    second = ids.new_id()
    ids.follow(true - timedelta(hours=1))  # Even a database that jumps back does not put the new before the old.
    third = ids.new_id()
    assert first < second < third
    assert abs((second.int >> 80) - true.timestamp() * 1000) < 60_000


@pytest.mark.parametrize("host_is_off", [timedelta(0), timedelta(days=1), timedelta(days=-1)])
@pytest.mark.parametrize("age", [timedelta(0), timedelta(seconds=60)])
def test_when_an_observation_was_read_is_told_by_the_databases_clock(host_is_off: timedelta, age: timedelta) -> None:
    from clusters.engines.interface import Observations
    from jobs.reconcile.poll import on_database_clock

    began = datetime(2026, 5, 1, tzinfo=UTC)
    here = began + host_is_off
    seen = Observations((), cursor="", complete=True, read_at=here - age if age else here + timedelta(milliseconds=5))
    assert on_database_clock(seen, began, here).read_at == began - age


@pytest.mark.database
def test_times_of_a_host_with_a_wrong_clock_are_put_where_they_can_have_been(quay: Any) -> None:
    from jobs.reconcile import poll

    for off in (timedelta(days=1), timedelta(days=-1)):
        job = quay.submit(f"job-{off.days}")
        observe = quay.engine.observe

        def shifted(cursor: str | None, observe: Any = observe, off: timedelta = off) -> Any:
            found = observe(cursor)
            items = tuple(
                replace(
                    item, tasks=tuple(replace(task, started_at=quay.now + off, ended_at=quay.now - off) for task in item.tasks)
                )
                for item in found.items
            )
            return replace(found, items=items)

        quay.engine.observe = shifted
        try:
            quay.schedule()
            from jobs.reconcile import launch

            launch.launch(quay.cluster.pk)
            quay.pass_time(1)
            poll.poll(quay.cluster.pk)
        finally:
            quay.engine.observe = observe
        [task] = quay.tasks(job)
        assert task.state == "succeeded"
        assert quay.now - timedelta(seconds=5) <= task.started_at <= task.ended_at <= quay.now
