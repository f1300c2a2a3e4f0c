"""The database goes away in the middle of work, comes back, or answers slowly: nothing is lost, nothing spins, nothing hangs.

The platform is the real one on a PostgreSQL of its own, which the tests stop, restart, and stand in front of.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import psutil
import psycopg
import pytest

from tests.builders.breakable import Breakable, BreakableServers, breakable_servers
from tests.builders.live import Json, LivePlatform, LiveUser, wait_until
from tests.builders.watch import Watch
from tests.faults.proxy import DatabaseProxy, proxied

pytestmark = [
    pytest.mark.engines,
    pytest.mark.database,
    # A server that a test restarts may outlive its handle by a moment, until the block of its servers ends.
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

SMALL = {"cpu": 1, "memory": "64Mi"}
BOUND_SECONDS = 40.0  # Of any answer while the database is away: a deadline, not a measure.


@pytest.fixture(scope="module")
def servers() -> Iterator[BreakableServers]:
    if not os.environ.get("BERTH_DATABASE_URL"):
        pytest.skip("about a server; SQLite is a file")
    with breakable_servers() as made:
        yield made


@pytest.fixture(scope="module")
def proxy(servers: BreakableServers) -> Iterator[DatabaseProxy]:
    with proxied(servers.postgresql.url) as made:
        yield made


class Behind(Breakable):
    """The server as it is reached through the proxy."""

    def __init__(self, server: Breakable, proxy: DatabaseProxy) -> None:
        super().__init__(server.server)
        self.url = proxy.url(server.url)


@pytest.fixture(scope="module")
def platform(servers: BreakableServers, proxy: DatabaseProxy) -> Iterator[LivePlatform]:
    """Behind the proxy, which does nothing until it is told."""
    behind = replace(servers, postgresql=Behind(servers.postgresql, proxy))
    with behind.platform(BERTH_DATABASE_LOCK_SECONDS="2", BERTH_DATABASE_WAIT_SECONDS="2") as made:
        yield made


@pytest.fixture
def user(platform: LivePlatform, proxy: DatabaseProxy, servers: BreakableServers) -> Iterator[LiveUser]:
    proxy.delay_seconds, proxy.refuses = 0.0, False
    if not servers.postgresql.is_running:
        servers.postgresql.start()
    wait_until(lambda: is_well(platform), "a platform that is well")
    yield platform.operator
    proxy.delay_seconds, proxy.refuses = 0.0, False


def is_well(platform: LivePlatform) -> bool:
    try:
        return bool(platform.anonymous.request("GET", "//readyz").status_code == 200)
    except httpx2.HTTPError:
        return False


def keep_asking(user: LiveUser, spec: Json) -> Json:
    """Submit as a program does that is not sure: again with the same key, until there is an answer that is final."""
    key = {"Idempotency-Key": uuid.uuid4().hex}
    deadline = time.monotonic() + 90
    while True:
        answer = user.request("POST", "/jobs", json={"spec": spec, **user.in_tenant}, headers=key)
        if answer.status_code != 503:
            assert answer.is_success, answer.text
            found: Json = answer.json()
            return found
        assert_tells_to_come_back(answer)
        assert time.monotonic() < deadline
        time.sleep(0.1)


def assert_tells_to_come_back(answer: httpx2.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["code"] == "unavailable"
    assert answer.json()["retryable"] is True


def jobs_named(platform: LivePlatform, name: str) -> int:
    return int(platform.rows(f"SELECT count(*) FROM jobs_job WHERE name = '{name}'")[0][0])


# --- Away and back ------------------------------------------------------------------------------------------------------


def test_while_the_database_is_away_requests_are_told_to_come_back_and_nothing_spins(
    platform: LivePlatform, servers: BreakableServers, user: LiveUser
) -> None:
    running, enough = goes_on_until_told(user, "echo done")
    assert platform.process is not None
    servers.postgresql.kill(signal.SIGQUIT)
    for method, path, body in (
        ("GET", "/jobs", None),
        ("GET", f"/jobs/{running['id']}", None),
        ("POST", "/jobs", {"spec": {"command": "true"}, **user.in_tenant}),
        ("POST", f"/jobs/{running['id']}/stop", {}),
        ("GET", "/tenants", None),
    ):
        began = time.monotonic()
        answer = user.request(method, path, **({} if body is None else {"json": body}))
        assert time.monotonic() - began < BOUND_SECONDS
        assert_tells_to_come_back(answer)
    large = user.request("POST", "/jobs", content=b" " * 2_000_000, headers={"Content-Type": "application/json"})
    assert_tells_to_come_back(large)
    assert platform.anonymous.request("GET", "//livez").status_code == 200
    wait_until(lambda: not is_well(platform), "the word that it is not ready")  # Answers are used for a moment.
    ready = platform.anonymous.request("GET", "//readyz")
    assert ready.status_code == 503
    assert ready.json()["checks"]["database"]["ok"] is False
    assert share_of_a_core(platform.process.pid, seconds=6) < 0.2
    servers.postgresql.start()
    wait_until(lambda: is_well(platform), "the platform's recovery")
    enough.touch(mode=0o666)
    assert user.wait(running)["state"] == "succeeded"
    assert user.logs(running) == "done\n"
    after = user.submit({"name": "after", "command": "true", "resources": SMALL}, wait=True)
    assert (after["state"], after["attempt"]) == ("succeeded", 1)


def goes_on_until_told(user: LiveUser, command: str) -> tuple[Json, Path]:
    """A job that runs, and the file that ends it once it is there; then it does this."""
    volume = user.make_volume(f"told-{uuid.uuid4().hex[:8]}")
    spec = {
        "command": f"while ! test -e /told/enough; do sleep 0.05; done; {command}",
        "mounts": [{"volume": volume["name"], "path": "/told"}],
        "resources": SMALL,
    }
    enough = user.platform.folder_of(volume) / "enough"
    return user.submit(spec, wait=["running"]), enough


def share_of_a_core(pid: int, *, seconds: float) -> float:
    """What a process and its threads used of one core in this time."""
    process = psutil.Process(pid)
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(seconds)  # A measurement takes its time.
    after = process.cpu_times()
    return ((after.user + after.system) - (before.user + before.system)) / (time.monotonic() - began)


def test_a_database_that_restarts_under_submissions_has_each_acknowledged_job_once(
    platform: LivePlatform, servers: BreakableServers, user: LiveUser
) -> None:
    name, acknowledged, failures = f"storm-{uuid.uuid4().hex[:8]}", [], []

    def submit() -> None:
        mine = LiveUser(platform, platform.token, tenant=user.tenant)
        try:
            for _ in range(15):
                acknowledged.append(keep_asking(mine, {"name": name, "command": "true", "resources": SMALL})["id"])
        except BaseException as error:
            failures.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(0.3)
        servers.restart_database()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert len(set(acknowledged)) == 60
    assert jobs_named(platform, name) == 60
    for job_id in acknowledged:
        ended = user.wait(job_id)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1)


def test_a_stream_outlives_a_restart_of_the_database(platform: LivePlatform, servers: BreakableServers, user: LiveUser) -> None:
    job, enough = goes_on_until_told(user, "n=0; while [ $n -lt 60 ]; do echo line $n; n=$((n+1)); sleep 0.1; done")
    seen: list[str] = []

    def read() -> None:
        last = ""
        while True:
            headers = {"Last-Event-ID": last} if last else {}
            with user.http.stream("GET", f"/api/v1/jobs/{job['id']}/logs/stream", headers=headers) as answer:
                if answer.status_code == 503:
                    time.sleep(0.2)
                    continue
                for line in answer.iter_lines():
                    seen.append(line)
                    if line.startswith("id: "):
                        last = line.removeprefix("id: ")
                    if line.startswith("event: end"):
                        return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    enough.touch(mode=0o666)
    wait_until(lambda: any("line 5" in line for line in seen), "the stream's beginning")
    servers.restart_database()
    wait_until(lambda: user.request("GET", f"/jobs/{job['id']}").is_success, "the platform to reach its database again")
    assert user.wait(job)["state"] == "succeeded"
    reader.join(60)
    text = "".join(seen)
    assert all(text.count(f"line {number}\\n") == 1 for number in range(60)), text[-3000:]


# --- Committed, and nobody knows -----------------------------------------------------------------------------------------


def test_a_submission_whose_commit_went_unanswered_is_found_by_its_key(
    platform: LivePlatform, proxy: DatabaseProxy, user: LiveUser
) -> None:
    name, before = f"cut-{uuid.uuid4().hex[:8]}", proxy.commits_cut
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"spec": {"name": name, "command": "true", "resources": SMALL}, **user.in_tenant}
    proxy.cut_commit_after("webapi_idempotencykey")
    first = user.request("POST", "/jobs", json=body, headers=key)
    assert proxy.commits_cut == before + 1
    assert_tells_to_come_back(first)
    assert "may have been done or not" in first.json()["hint"]
    assert jobs_named(platform, name) == 1
    again = user.request("POST", "/jobs", json=body, headers=key)
    assert again.is_success
    assert again.headers["idempotency-replayed"] == "true"
    assert jobs_named(platform, name) == 1
    ended = user.wait(again.json())
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)


CUTS = {
    "admission": "tenants_reservation",
    "launch": "launched_at",
    "observation": '"jobs_task" SET',
    "the end": "tenants_ledgerentry",
    "finishing": "logs_stored",
    "log index": "storage_logchunkindex",
    "numbering": '"activity_event" SET',
}


@pytest.mark.parametrize("step", CUTS)
def test_whatever_commit_goes_unanswered_the_job_is_done_once(
    step: str, platform: LivePlatform, proxy: DatabaseProxy, user: LiveUser
) -> None:
    before = proxy.commits_cut
    witness = user.make_volume(f"witness-{uuid.uuid4().hex[:8]}")
    proxy.cut_commit_after(CUTS[step])
    job = keep_asking(
        user,
        {
            "name": "witnessed",
            "command": "echo start >> /witness/log; echo hello; echo stop >> /witness/log",
            "mounts": [{"volume": witness["name"], "path": "/witness"}],
            "resources": SMALL,
        },
    )
    ended = user.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    assert user.logs(job) == "hello\n"
    wait_until(lambda: proxy.commits_cut == before + 1, f"the cut at {step}")
    wait_until(lambda: platform.rows("SELECT count(*) FROM jobs_attempt WHERE NOT forgotten") == [(0,)], "the platform's rest")
    assert user.download(f"/volumes/{witness['id']}/content", path="log") == b"start\nstop\n"
    assert platform.rows("SELECT count(*) FROM tenants_reservation WHERE released_at IS NULL") == [(0,)]
    assert platform.rows("SELECT attempt_id FROM tenants_ledgerentry GROUP BY attempt_id HAVING count(*) > 1") == []
    [(count, first, last)] = platform.rows("SELECT count(*), min(seq), max(seq) FROM activity_event WHERE seq IS NOT NULL")
    assert last - first + 1 == count


# --- Slow, locked, and ended for another's sake --------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1.0, pytest.param(5.0, marks=pytest.mark.slow)])
def test_a_slow_database_bounds_every_request_and_heals(
    seconds: float, platform: LivePlatform, proxy: DatabaseProxy, user: LiveUser
) -> None:
    proxy.delay_seconds = seconds
    began = time.monotonic()
    users = [LiveUser(platform, platform.token, tenant=user.tenant) for _ in range(12)]
    answers: list[int] = []

    def ask(caller: LiveUser) -> None:
        answers.append(caller.request("GET", "/jobs").status_code)
        caller.close()

    threads = [threading.Thread(target=ask, args=(caller,)) for caller in users]
    for thread in threads:
        thread.start()
    assert platform.anonymous.request("GET", "//livez").status_code == 200
    for thread in threads:
        thread.join(110)
    assert time.monotonic() - began < 110
    assert set(answers) <= {200, 503}
    assert len(answers) == 12
    proxy.delay_seconds = 0.0
    wait_until(lambda: user.request("GET", "/jobs").status_code == 200, "the platform's recovery")
    assert user.submit({"command": "true", "resources": SMALL}, wait=True)["state"] == "succeeded"


def test_a_lock_that_is_held_stops_what_needs_it_and_nothing_else(
    platform: LivePlatform, servers: BreakableServers, user: LiveUser
) -> None:
    alice = platform.person("alice", tenant="locked", role="manager")
    volume = user.make_volume(f"volume-{uuid.uuid4().hex[:8]}")
    url = platform.environment["BERTH_DATABASE_URL"]
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE storage_volume IN ACCESS EXCLUSIVE MODE")
        waiting: list[httpx2.Response] = []
        blocked = [LiveUser(platform, platform.token, tenant=user.tenant) for _ in range(3)]
        threads = [
            threading.Thread(target=lambda blocked_user=blocked_user: waiting.append(blocked_user.request("GET", "/volumes")))
            for blocked_user in blocked
        ]
        for thread in threads:
            thread.start()
        with Watch() as watch:
            for _ in range(10):
                began = watch.seconds
                alice.api("GET", "/jobs")
                assert watch.seconds - began < 2.0, "another tenant's reads wait for nobody"
        job = alice.submit({"command": "true", "resources": SMALL}, wait=True)
        assert job["state"] == "succeeded"
        for thread in threads:
            thread.join(60)
        for answer in waiting:
            assert_tells_to_come_back(answer)
            assert "Nothing was changed" in answer.json()["hint"]
        holder.rollback()
    for blocked_user in blocked:
        blocked_user.close()
    assert volume["id"] in [item["id"] for item in user.items("/volumes")]


def test_jobs_wait_while_their_table_is_locked_and_go_on_when_it_is_free(platform: LivePlatform, user: LiveUser) -> None:
    url = platform.environment["BERTH_DATABASE_URL"]
    job = user.submit({"command": "sleep 1", "resources": SMALL})
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE jobs_attempt IN ACCESS EXCLUSIVE MODE")
        time.sleep(5.0)  # More than twice what the platform waits for a lock.
        holder.rollback()
    ended = user.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
