"""Stops that meet a job in every state of its life: each is chosen, waited for and hit.

Chance alone hits states by how long they last, and so nearly always a job that waits or runs. The shortest ones, in which a
stop races with a start, are where stops go wrong.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg

from tests.chaos.clients import Client

STATES = ("queued", "admitted", "starting", "running", "stopping")
PASSED = {state: STATES[place + 1 :] for place, state in enumerate(STATES)}  # What comes after each.
REACH_SECONDS_MAX = 20.0  # While everything breaks a job may not get there for long: another one is tried later.
LOOK_SECONDS = 0.002
GRACE_SECONDS = 1.0
CALM_SECONDS = 5.0  # Two are promised where nothing is broken; a loaded machine may need some more.


class Stopper(Client):
    """A client that does nothing else. `hits` says how many stops met each state."""

    def __init__(self, *arguments: Any, database_url: Callable[[], str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.database_url = database_url
        self.hits: Counter[str] = Counter()
        self._database: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def has_met_all(self) -> bool:
        """Whether a stop has met each state."""
        return all(self.hits[state] for state in STATES)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._forget_database()

    def _act(self) -> None:
        wanted = min(STATES, key=lambda state: (self.hits[state], STATES.index(state)))
        spec = self.spec(env={"SECONDS_OF_WORK": "100000"}, resources={"cpu": 1, "memory": "32Mi"}, priority=500)
        [job] = self.submit("/jobs", {"spec": {**spec, "hold": wanted == "queued"}})
        self.endless.add(job)  # Stopped at the end of the round, if it was not before.
        first = "running" if wanted == "stopping" else wanted
        found = self._reach(job, first)
        if wanted == "stopping" and found == "running":
            self.stop(job, grace_seconds=GRACE_SECONDS, state="", calm_seconds=CALM_SECONDS)
            found = self._reach(job, "stopping")
            if found == "stopping":
                self._stop_again(job)
        elif found in STATES:
            self.stop(job, grace_seconds=GRACE_SECONDS, state=found, calm_seconds=CALM_SECONDS)
        self.hits[found] += found in STATES

    def _stop_again(self, job: str) -> None:
        """A second stop with less grace, of one that is stopping: it may find that there is nothing left to do."""
        self.tell("client", "stop_unknown", job=job, state="stopping")
        self.write("stop", "POST", f"/jobs/{job}/stop", {"grace_seconds": 0})

    def _reach(self, job: str, wanted: str) -> str:
        """Wait until the job is in this state, or past it; the state that it was seen in last."""
        deadline = time.monotonic() + REACH_SECONDS_MAX
        state = ""
        while time.monotonic() < deadline and not self.stopping.is_set():
            state = self._state(job) or state
            if state == wanted or state in PASSED[wanted] or state in ("succeeded", "failed", "stopped"):
                break
            time.sleep(LOOK_SECONDS)
        return state

    def _state(self, job: str) -> str:
        """As the database has it: a page of the API is too slow for states that last some hundredths of a second."""
        with contextlib.suppress(psycopg.Error):
            if self._database is None:
                self._database = psycopg.connect(self.database_url(), autocommit=True, connect_timeout=2)
            row = self._database.execute("SELECT state FROM jobs_job WHERE id = %s", [job]).fetchone()
            return str(row[0]) if row else ""
        self._forget_database()
        time.sleep(0.1)
        return ""

    def _forget_database(self) -> None:
        if self._database is not None:
            with contextlib.suppress(psycopg.Error):
                self._database.close()
            self._database = None
