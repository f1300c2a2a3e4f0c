"""Celery's messages are lost, delivered several times, in another order, and long after they were sent: nothing is done twice."""

from __future__ import annotations

import contextlib
import heapq
import random
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import redis

from tests.builders.live import wait_until
from tests.faults.ground import Ground

pytestmark = [pytest.mark.engines, pytest.mark.database, pytest.mark.timeout(900)]

QUEUE = "default"
LATE_SECONDS = 7.5  # As much later as a copy may come. What Redis delivers again after its timeout is the same message, later.
JOBS = 12
SENT = re.compile(r'"LPUSH" "((?:default|cluster\.)[^"]*)" "((?:[^"\\]|\\.)*)"')


@dataclass
class Courier:
    """A courier who delivers whatever he carried again, and again, whenever he likes; and loses what he is told to lose."""

    url: str
    seed: int
    losing: float = 0.0
    seen: int = 0
    repeated: int = 0
    lost: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Courier]:
        threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._lose)]
        self._due: list[tuple[float, int, str, bytes]] = []
        self._queues = {QUEUE}  # And one for each cluster, as it is seen.
        self._lock = threading.Lock()
        threads.append(threading.Thread(target=self._repeat, daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.over.set()
            for thread in threads:
                thread.join(10)

    def _listen(self) -> None:
        """Take note of every message that is sent, and plan one to four further deliveries of it."""
        chance = random.Random(f"{self.seed}/copies")
        copies: set[bytes] = set()
        with redis.Redis.from_url(self.url, socket_timeout=1.0) as client, client.monitor() as monitor:
            while not self.over.is_set():
                try:
                    line = monitor.connection.read_response(disable_decoding=False)
                except redis.TimeoutError:
                    continue
                found = SENT.search(line.decode() if isinstance(line, bytes) else str(line))
                if found is None:
                    continue
                queue = found.group(1)
                self._queues = self._queues | {queue}
                message = found.group(2).encode().decode("unicode_escape").encode("latin-1")
                if message in copies:  # One of ours.
                    continue
                copies.add(message)
                with self._lock:
                    self.seen += 1
                    for _ in range(chance.randint(1, 4)):
                        delay = chance.uniform(0.0, LATE_SECONDS)
                        heapq.heappush(self._due, (time.monotonic() + delay, chance.getrandbits(32), queue, message))

    def _repeat(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            while not self.over.wait(0.02):
                with self._lock:
                    due = []
                    while self._due and self._due[0][0] <= time.monotonic():
                        due.append(heapq.heappop(self._due)[2:])
                random.Random(self.seed).shuffle(due)
                for queue, message in due:
                    client.lpush(queue, message)
                    self.repeated += 1

    def _lose(self) -> None:
        chance = random.Random(f"{self.seed}/losses")
        with redis.Redis.from_url(self.url) as client:
            while not self.over.wait(0.01):
                # Redis gives to whoever has waited longest: a thief who waits gets his part however quick the workers are.
                if self.losing and chance.random() < self.losing and client.brpop(sorted(self._queues), timeout=0.5) is not None:
                    self.lost += 1


def courier(ground: Ground, seed: int, *, losing: float = 0.0) -> Courier:
    return Courier(ground.platform.environment["BERTH_REDIS_URL"], seed, losing)


@pytest.mark.capability("113", "Messages lost, repeated, late: everything is done once")
@pytest.mark.capability("6.16", "Messages that are lost, doubled or late, and a stale view, do everything once")
def test_messages_that_come_two_to_five_times_and_late_start_and_stop_everything_once(ground: Ground) -> None:
    with courier(ground, seed=9).at_work() as repeating:
        jobs = [ground.submit(seconds=0.3, succeeds_at=1 + number % 3) for number in range(JOBS)]
        endless = [ground.submit(seconds=1000) for _ in range(3)]
        for job in endless:
            ground.wait(job, "running")
            ground.client.stop(job)
        for job in jobs:
            ground.wait(job, "succeeded")
        for job in endless:
            ground.wait(job, "stopped")
        ground.rest()
        wait_until(lambda: repeating.repeated >= repeating.seen > 0, "copies of old messages")
    report = ground.check()
    assert report.checked["I3"]["attempts made"] >= sum(1 + number % 3 for number in range(JOBS)) + len(endless)


@pytest.mark.capability("6.16", "Messages that are lost, doubled or late, and a stale view, do everything once")
@pytest.mark.capability("113", "Messages lost, repeated, late: everything is done once")
def test_messages_that_are_lost_cost_time_and_no_job(ground: Ground) -> None:
    """A thief waits for messages beside the workers."""
    with courier(ground, seed=10, losing=0.9).at_work() as losing:
        jobs = [ground.submit() for _ in range(JOBS)]
        endless = ground.submit(seconds=1000)
        ground.wait(endless, "running")
        ground.client.stop(endless)
        for job in jobs:
            ground.wait(job, "succeeded")
        ground.wait(endless, "stopped")
        wait_until(lambda: losing.lost > 0, "a message that is lost")
    ground.check()
