"""What is broken, and in which order: drawn from the seed before anything runs, so that the same seed breaks the same things."""

from __future__ import annotations

import ast
import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import redis

from tests.builders.breakable import BreakableServers
from tests.chaos.fleet import Fleet

# The load builds no images, uploads no files and orders no waiting jobs; points of those would be armed in vain.
ELSEWHERE = (
    "images.", "storage.upload", "storage.volume", "jobs.build", "jobs.priority", "jobs.move", "tenants.quota_",
    "clusters.maintenance",
)  # fmt: skip
WIRINGS = ("platform/*/wiring.py", "*/wiring.py")


def points_in_source() -> list[str]:
    """The crash points of all apps. From the source: a round looks at the platform from outside, and sets up no Django."""
    root = Path(__file__).resolve().parents[2]
    found: list[str] = []
    for path in sorted(path for pattern in WIRINGS for path in root.glob(pattern)):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CRASH_POINTS":
                found += ast.literal_eval(node.value)
    return found


REACHED = tuple(name for name in points_in_source() if not name.startswith(ELSEWHERE))
DIES_WITH_OTHERS = ("web", "worker", "scheduler", "observer")


@dataclass(frozen=True)
class Planned:
    """One fault: when, in seconds from the start of the load; what; and the number that chooses whom."""

    at: float
    kind: str
    number: int


WEIGHTS: Mapping[str, float] = {
    "kill web": 3,
    "kill worker": 3,
    "kill scheduler": 3,
    "kill observer": 3,
    "kill launcher": 1,
    "kill supervisor": 1,
    "kill everything": 1,
    "freeze web": 1,
    "freeze worker": 2,
    "freeze scheduler": 2,
    "freeze observer": 2,
    "freeze launcher": 1,
    "freeze supervisor": 1,
    "supervisor, launcher and database die": 1,
    "die at a crash point": 5,
    "freeze at a crash point": 4,
    "redis dies": 1,
    "redis starts empty": 2,
    "redis is flushed": 2,
    "redis freezes": 1.5,
    "database stops immediately": 2,
    "database cuts connections": 2,
    "database freezes": 1,
    "the node is drained": 2,
}


LOSES_A_PROCESS = ("kill ", "freeze ", "die ", "supervisor, ")
DRAINED_SECONDS = (1.0, 4.0)  # How long the node takes nothing after a drain.
OPERATOR_SECONDS = 5.0  # For an answer to the operator, who asks again later.


def plan(seed: int, *, seconds: float, every_seconds: float, calm_seconds: float = 1.0) -> list[Planned]:
    """Faults over the whole time of the load but its calm beginning, one every `every_seconds` in the mean."""
    chance = random.Random(f"{seed}/faults")
    planned, at = [], calm_seconds
    kinds = list(WEIGHTS)
    # Every kind once, in a random order, before chance alone decides: a short round shall see most of them.
    first = chance.sample(kinds, len(kinds))
    while True:
        at += chance.uniform(0.3, 1.7) * every_seconds
        if at >= seconds:
            return planned
        kind = first.pop() if first else chance.choices(kinds, list(WEIGHTS.values()))[0]
        planned.append(Planned(at, kind, chance.getrandbits(48)))


class Breaker(threading.Thread):
    """Carries the plan out. `tell` writes each fault, with what it hit, into the history."""

    def __init__(
        self,
        planned: list[Planned],
        *,
        fleet: Fleet,
        servers: BreakableServers,
        lease_seconds: float,
        tell: Callable[..., None],
    ) -> None:
        super().__init__(name="breaker", daemon=True)
        self.planned = planned
        self.fleet = fleet
        self.servers = servers
        self.lease_seconds = lease_seconds
        self.tell = tell
        self.stopping = threading.Event()
        self.done = 0
        self.failure: BaseException | None = None
        self._redis_thaws_at: float | None = None
        self._database_thaws_at: float | None = None
        self._drained: str | None = None  # The node that takes nothing, until then.
        self._drained_until = 0.0

    def run(self) -> None:
        began = time.monotonic()
        try:
            for fault in self.planned:
                while time.monotonic() < began + fault.at and not self.stopping.wait(0.05):
                    self._between()
                if self.stopping.is_set():
                    return
                hit = self._carry_out(fault)
                # Whoever was lost may have had work in hand, which nobody else takes up before its lease is over.
                held = {"lease_seconds": self.lease_seconds} if fault.kind.startswith(LOSES_A_PROCESS) else {}
                self.tell("fault", "injected", what=fault.kind, **hit, **held)
                self.done += 1
            while not self.stopping.wait(0.05):
                self._between()
        except BaseException as error:
            self.failure = error

    def heal(self) -> None:
        """Everything that was broken and does not mend itself is mended."""
        self.stopping.set()
        self.join()
        self.fleet.platform.crash_at(None)
        self._thaw_database()
        self.servers.mend()
        self._drained_until = 0.0
        while self._drained is not None:
            self._take_node_back()
            time.sleep(0.2)
        self.fleet.thaw_all()
        self.tell("fault", "injected", what="everything is healed")

    def _between(self) -> None:
        for pid in self.fleet.thaw_due():
            self.tell("fault", "injected", what="thaw", pid=pid)
        self.fleet.freeze_found(self.lease_seconds * 1.5)
        if self._redis_thaws_at is not None and time.monotonic() >= self._redis_thaws_at:
            self.servers.redis.thaw()
            self._redis_thaws_at = None
            self.tell("fault", "injected", what="thaw", hit="redis")
        if self._database_thaws_at is not None and time.monotonic() >= self._database_thaws_at:
            self._thaw_database()
            self.tell("fault", "injected", what="thaw", hit="postgresql")
        self._take_node_back()

    def _carry_out(self, fault: Planned) -> dict[str, Any]:
        chance = random.Random(fault.number)
        verb, _, whom = fault.kind.partition(" ")
        if fault.kind == "kill everything":
            return self._kill_everything()
        if fault.kind == "supervisor, launcher and database die":
            return self._kill_the_base(chance)
        if fault.kind.endswith("crash point"):
            return self._arm(chance, "freeze " if verb == "freeze" else "")
        if verb in ("kill", "freeze"):
            return self._process(chance, verb, whom)
        step: Callable[[random.Random], dict[str, Any]] = getattr(self, "_" + fault.kind.replace(" ", "_"))
        return step(chance)

    def _process(self, chance: random.Random, verb: str, role: str) -> dict[str, Any]:
        # The small profile has one process that is everything but the launcher.
        found = self.fleet.pick(chance, (role,)) or self.fleet.pick(chance, ("platform",))
        if found is None:
            return {"hit": None}
        if verb == "kill":
            self.fleet.kill(found[1])
            return {"hit": found[0], "pid": found[1]}
        seconds = chance.uniform(0.3, 3.0) * self.lease_seconds
        self.fleet.freeze(found[1], seconds)
        return {"hit": found[0], "pid": found[1], "seconds": round(seconds, 2)}

    def _kill_everything(self) -> dict[str, Any]:
        """As a power cut for everything but jobs, database and Redis."""
        known = self.fleet.processes()
        pids = [pid for role in ("supervisor", "platform", *DIES_WITH_OTHERS, "launcher") for pid in known.get(role, ())]
        for pid in pids:
            self.fleet.kill(pid)
        return {"hit": "all", "pids": pids}

    def _kill_the_base(self, chance: random.Random) -> dict[str, Any]:
        """What all others stand on, at once."""
        found = [self.fleet.pick(chance, (role,)) for role in ("supervisor", "launcher", "platform")]
        pids = [each[1] for each in found if each is not None]
        for pid in pids:
            self.fleet.kill(pid)
        return {"hit": "base", "pids": pids, **self._database_stops_immediately(chance)}

    def _arm(self, chance: random.Random, prefix: str) -> dict[str, Any]:
        point = chance.choice(REACHED)
        self.fleet.platform.crash_at(prefix + point)
        return {"point": point}

    def _redis_dies(self, chance: random.Random) -> dict[str, Any]:
        self._thaw_redis()
        self.servers.redis.kill()
        time.sleep(chance.uniform(0.0, 3.0))
        self.servers.redis.start()
        return {"hit": "redis"}

    def _redis_starts_empty(self, chance: random.Random) -> dict[str, Any]:
        self._thaw_redis()
        self.servers.redis.kill()
        time.sleep(chance.uniform(0.0, 3.0))
        self.servers.redis.start(empty=True)
        return {"hit": "redis"}

    def _redis_is_flushed(self, chance: random.Random) -> dict[str, Any]:
        self._thaw_redis()
        with contextlib.suppress(redis.RedisError):
            self.servers.flush_redis()
        return {"hit": "redis"}

    def _redis_freezes(self, chance: random.Random) -> dict[str, Any]:
        seconds = chance.uniform(2.0, 12.0)
        self.servers.redis.freeze()
        self._redis_thaws_at = time.monotonic() + seconds
        return {"hit": "redis", "seconds": round(seconds, 2)}

    def _thaw_redis(self) -> None:
        if self._redis_thaws_at is not None:
            self.servers.redis.thaw()
            self._redis_thaws_at = None

    def _database_freezes(self, chance: random.Random) -> dict[str, Any]:
        seconds = chance.uniform(2.0, 8.0)
        if self._database_thaws_at is None:
            self.tell("fault", "outage", what="postgresql is frozen")
            self.servers.postgresql.freeze()
        self._database_thaws_at = time.monotonic() + seconds
        return {"hit": "postgresql", "seconds": round(seconds, 2)}

    def _thaw_database(self) -> None:
        if self._database_thaws_at is not None:
            self.servers.postgresql.thaw()
            self._database_thaws_at = None
            self.tell("fault", "healed", what="postgresql is frozen")

    def _the_node_is_drained(self, chance: random.Random) -> dict[str, Any]:
        """Everything that runs there makes way and begins again."""
        seconds = chance.uniform(*DRAINED_SECONDS)
        with contextlib.suppress(httpx2.TransportError), self._operator() as operator:
            nodes = operator.get("/nodes")
            if nodes.is_success:
                self._drained = str(nodes.json()["items"][0]["id"])
                self._drained_until = time.monotonic() + seconds
                answer = operator.post(f"/nodes/{self._drained}/drain", json={"reason": "chaos"})
                return {"hit": "node", "answer": answer.status_code, "seconds": round(seconds, 2)}
        return {"hit": None}

    def _take_node_back(self) -> None:
        """Ask until it takes jobs again: the answer, or the request, may be lost."""
        if self._drained is None or time.monotonic() < self._drained_until:
            return
        self._drained_until = time.monotonic() + 1.0
        with contextlib.suppress(httpx2.TransportError), self._operator() as operator:
            if operator.patch(f"/nodes/{self._drained}", json={"cordoned": False}).is_success:
                self._drained = None

    def _operator(self) -> httpx2.Client:
        platform = self.fleet.platform
        return httpx2.Client(
            base_url=f"{platform.url}/api/v1", headers={"Authorization": f"Bearer {platform.token}"},
            timeout=OPERATOR_SECONDS, trust_env=False,
        )  # fmt: skip

    def _database_stops_immediately(self, chance: random.Random) -> dict[str, Any]:
        self._thaw_database()
        self.tell("fault", "outage", what="postgresql")
        self.servers.postgresql.kill(signal.SIGQUIT)
        time.sleep(chance.uniform(0.0, 2.0))
        self.servers.postgresql.start()
        self.tell("fault", "healed", what="postgresql")
        return {"hit": "postgresql"}

    def _database_cuts_connections(self, chance: random.Random) -> dict[str, Any]:
        self._thaw_database()
        with contextlib.suppress(psycopg.Error):
            return {"hit": "postgresql", "connections": self.servers.cut_connections()}
        return {"hit": None}
