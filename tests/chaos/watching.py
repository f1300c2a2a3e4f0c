"""What is seen from beside while everything breaks: quotas at every commit, who leads, whether anybody answers."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import psycopg

from tests.builders.live import LivePlatform

WATCH_SECONDS = 0.1
PROBE_SECONDS = 0.1
PULSE_SECONDS = 0.25
SLOW_SECONDS = 0.1  # An idle machine needs a fifth of it.
BUBBLEWRAP = shutil.which("bwrap")
VIEW = (BUBBLEWRAP, "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-pid", "--proc", "/proc") if BUBBLEWRAP else ()
# What is started of a task before its program says a word, and the `date` of that word.
NOTHING = ("/bin/sh", "-c", 'exec "$@"', "pulse", *VIEW, "/usr/bin/setpriv", "--no-new-privs", "/bin/sh", "-c", "date; date")
ANSWER_SECONDS = 1.0  # A web process that needs longer for `/livez` does not answer, for whoever balances load.

# At the end of each transaction that changed a reservation, within it: what is held in every queue on the way to the root, by
# the reservations themselves, beside the ceiling and beside the sum that the product keeps.
SAMPLER = """
CREATE TABLE chaos_quota (
    at timestamptz NOT NULL, queue_id uuid NOT NULL, pool_id uuid NOT NULL,
    held bigint NOT NULL, kept bigint NOT NULL, ceiling bigint, held_memory bigint NOT NULL, ceiling_memory bigint
);
CREATE FUNCTION chaos_sample() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    INSERT INTO chaos_quota
    SELECT clock_timestamp(), u.queue_id, u.pool_id,
        coalesce(h.cpu, 0), u.cpu_millis, u.cpu_millis_max, coalesce(h.memory, 0), u.memory_bytes_max
    FROM tenants_queueusage u JOIN tenants_queue above ON above.id = u.queue_id
    CROSS JOIN LATERAL (
        SELECT sum(r.cpu_millis) AS cpu, sum(r.memory_bytes) AS memory FROM tenants_reservation r
        JOIN tenants_queue q ON q.id = r.queue_id
        WHERE r.released_at IS NULL AND r.pool_id = u.pool_id AND q.path LIKE above.path || '%'
    ) h
    WHERE u.pool_id = NEW.pool_id AND (SELECT path FROM tenants_queue WHERE id = NEW.queue_id) LIKE above.path || '%';
    RETURN NULL;
END $body$;
CREATE CONSTRAINT TRIGGER chaos_sample AFTER INSERT OR UPDATE ON tenants_reservation
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos_sample();
"""


def install_sampler(platform: LivePlatform) -> None:
    """Sample the quotas at every commit from now on, in the database itself."""
    platform.execute(SAMPLER)


@dataclass(frozen=True)
class QuotaSamples:
    """What the sampler saw."""

    samples: int
    over: int
    drifted: int
    fullest: float  # The largest share of a ceiling that was ever held.


def read_samples(platform: LivePlatform) -> QuotaSamples:
    """All samples of the round."""
    [(samples, over, drifted, fullest)] = platform.rows(
        "SELECT count(*), count(*) FILTER (WHERE held > ceiling OR held_memory > ceiling_memory),"
        " count(*) FILTER (WHERE held <> kept), coalesce(max(held::float / nullif(ceiling, 0)), 0) FROM chaos_quota"
    )
    return QuotaSamples(samples, over, drifted, float(fullest))


@dataclass(frozen=True)
class Takeover:
    """A time in which nobody who was up held a lease, in seconds since the epoch."""

    lease: str
    began: float
    ended: float


def summary(takeovers: Sequence[Takeover], wide: Sequence[float]) -> dict[str, dict[str, float]]:
    """How long it took until somebody else did what one process had done, by kind of work.

    Apart stand those during which more was broken than processes: the database, or all processes at once.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    for each in takeovers:
        is_wide = any(each.began - 3.0 <= at <= each.ended for at in wide)
        seconds[f"{each.lease}{' (wide)' if is_wide else ''}"].append(each.ended - each.began)
        seconds[f"any{' (wide)' if is_wide else ''}"].append(each.ended - each.began)
    return {name: spread(values) for name, values in sorted(seconds.items())}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Number, median, 95th percentile and maximum."""
    ordered = sorted(values)
    if not ordered:
        return {"count": 0, "median": 0.0, "p95": 0.0, "max": 0.0}
    last = len(ordered) - 1
    return {
        "count": len(ordered),
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[min(last, round(0.95 * last))], 3),
        "max": round(ordered[-1], 3),
    }


class Leases(threading.Thread):
    """Reads all leases of leadership ten times a second and measures how long each had no living, awake holder."""

    def __init__(self, url: Callable[[], str], *, is_up: Callable[[int], bool]) -> None:
        super().__init__(name="leases", daemon=True)
        self.url = url
        self.is_up = is_up  # Whether a process lives and is not frozen.
        self.takeovers: list[Takeover] = []
        self.stopping = threading.Event()
        self._since: dict[str, float] = {}

    def run(self) -> None:
        while not self.stopping.wait(WATCH_SECONDS):
            with (
                contextlib.suppress(psycopg.Error),
                psycopg.connect(self.url(), autocommit=True, connect_timeout=2) as connection,
            ):
                while not self.stopping.wait(WATCH_SECONDS):
                    rows = connection.execute(
                        "SELECT name, holder, expires_at > clock_timestamp() FROM reconciling_lease WHERE holder <> 'jobs.poll'"
                    ).fetchall()
                    self._compare(rows, time.time())

    def _compare(self, rows: Sequence[tuple[str, str, bool | None]], now: float) -> None:
        """A lease counts as unserved from the moment that its holder is gone until another one that is up has taken it."""
        for name, holder, is_valid in rows:
            pid = holder.rpartition(":")[2]
            served = bool(is_valid) and pid.isdigit() and self.is_up(int(pid))
            kind = name.partition(".")[0]
            if served and name in self._since:
                self.takeovers.append(Takeover(kind, self._since.pop(name), now))
            elif not served:
                self._since.setdefault(name, now)


class Pulse(threading.Thread):
    """Starts a task that does nothing, in a session of its own as tasks are, again and again, and tells where the machine took
    longer for it than it should."""

    def __init__(self, tell: Callable[..., None]) -> None:
        super().__init__(name="pulse", daemon=True)
        self.tell = tell
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(PULSE_SECONDS):
            began = time.monotonic()
            subprocess.run(NOTHING, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            seconds = time.monotonic() - began
            if seconds > SLOW_SECONDS:
                self.tell("machine", "slow", seconds=round(seconds, 3))


class Probe(threading.Thread):
    """Asks the platform's address whether it lives, each time on a new connection, and notes how long it did not."""

    def __init__(self, address: str) -> None:
        super().__init__(name="probe", daemon=True)
        self.address = address
        self.gaps: list[float] = []
        self.spans: list[tuple[float, float]] = []  # The same, in seconds since the epoch.
        self.asked = 0
        self.failed = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        down_since: float | None = None
        while not self.stopping.wait(PROBE_SECONDS):
            began = time.monotonic()
            answered = False
            with contextlib.suppress(httpx2.HTTPError):
                answered = httpx2.get(f"{self.address}/livez", timeout=ANSWER_SECONDS, trust_env=False).status_code == 200
            self.asked += 1
            if answered and down_since is not None:
                seconds = time.monotonic() - down_since
                self.gaps.append(seconds)
                self.spans.append((time.time() - seconds, time.time()))
                down_since = None
            elif not answered:
                self.failed += 1
                down_since = began if down_since is None else down_since


def facts(thread: Probe) -> dict[str, Any]:
    """The probe's figures."""
    return {"asked": thread.asked, "unanswered": thread.failed, "gaps_seconds": spread(thread.gaps)}
