"""The tables move to this release while the release before serves fifty requests a second: nobody is answered with a 5xx."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.builders.live import LivePlatform, running_platform, wait_until
from tests.builders.operating import manage

pytestmark = [pytest.mark.engines, pytest.mark.alone, pytest.mark.database, pytest.mark.timeout(420)]

PER_SECOND, THREADS = 50, 4
LOCK_SECONDS = 2  # How long a migration waits for a table.


class Load:
    """Reads and submissions at an even pace, whatever becomes of them."""

    def __init__(self, platform: LivePlatform) -> None:
        self.platform = platform
        self.statuses: Counter[str] = Counter()
        self.slowest = 0.0
        self.submitted: list[str] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(THREADS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

    def _work(self, first: int) -> None:
        operator, number = self.platform.operator, first
        headers = {"Authorization": f"Bearer {operator.token}"}
        with httpx2.Client(base_url=self.platform.url, headers=headers, timeout=60, trust_env=False) as client:
            due = time.monotonic()
            while not self._stop.is_set():
                began = time.monotonic()
                self._count(self._call(client, number), time.monotonic() - began)
                number += THREADS
                due = max(due + THREADS / PER_SECOND, time.monotonic() - 1.0)  # Late is late: no burst makes up for it.
                self._stop.wait(max(0.0, due - time.monotonic()))

    def _call(self, client: httpx2.Client, number: int) -> httpx2.Response:
        if number % 5:
            return client.get("/api/v1/" + ("jobs", "queues", "whoami", "clusters")[number % 4])
        spec = {"name": f"load-{number}", "command": "true", "hold": True}
        return client.post("/api/v1/jobs", json={"spec": spec, **self.platform.operator.in_tenant})

    def _count(self, answer: httpx2.Response, seconds: float) -> None:
        with self._lock:
            self.statuses[str(answer.status_code)] += 1
            self.slowest = max(self.slowest, seconds)
            if answer.status_code == 201:
                self.submitted.append(answer.json()["id"])


@pytest.fixture
def before(release_before: Path) -> Iterator[LivePlatform]:
    if not os.environ.get("BERTH_DATABASE_URL"):
        pytest.skip("on SQLite the one platform migrates before it serves")
    with running_platform(release=release_before) as made:
        yield made


@pytest.mark.capability("120", "Tables move under load without a failed request")
def test_tables_move_forward_under_load_and_behind_a_long_transaction(before: LivePlatform) -> None:
    """Somebody holds a table of the migrations for longer than they wait; they come again, and nobody waits behind them."""
    before.submit({"name": "first", "command": "true"}, wait=True)
    with Load(before) as load:
        wait_until(lambda: sum(load.statuses.values()) > PER_SECOND, "the load")
        held = threading.Event()
        reader = threading.Thread(target=_hold, args=(before.environment["BERTH_DATABASE_URL"], held), daemon=True)
        reader.start()
        assert held.wait(30)
        done = manage(before, "prepare")
        reader.join(60)
        after = sum(load.statuses.values())
        wait_until(lambda: sum(load.statuses.values()) > after + PER_SECOND, "some load after it")
    assert set(load.statuses) == {"200", "201"}, load.statuses
    assert before.rows("SELECT count(*) FROM django_migrations WHERE app = 'clusters' AND name = '0002_quarantine'") == [(1,)]
    assert "migration_waits_for_lock" in done.stdout + done.stderr
    found = {row[0] for row in before.rows("SELECT id::text FROM jobs_job WHERE name LIKE 'load-%'")}
    assert set(load.submitted) == found
    before.restart()  # And the release before starts on what it does not know.
    assert before.submit({"name": "last", "command": "true"}, wait=True)["state"] == "succeeded"


def _hold(url: str, held: threading.Event) -> None:
    """Keep a table in use until a migration waits for it, and a little longer than it does."""
    with psycopg.connect(url) as connection, psycopg.connect(url, autocommit=True) as looking:
        connection.execute("SELECT count(*) FROM clusters_cluster")  # A share lock until the transaction ends.
        held.set()
        deadline = time.monotonic() + 90
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        while looking.execute(waits).fetchone() == (0,) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(LOCK_SECONDS + 1)
