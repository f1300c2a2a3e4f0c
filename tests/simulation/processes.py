"""The processes of a simulation. Each holds in memory what the real one holds, and loses it when it dies."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from activity import hints
from clusters.engines.interface import EngineUnreachable
from clusters.services import engine_for, record_contact, record_inventory
from controlplane import duties
from controlplane.celery import app
from controlplane.processes import scheduler
from controlplane.processes.leader import Leader
from jobs.reconcile import poll
from jobs.reconcile.pump import pump_live
from kernel.clock import database_now
from reconciling import ticks
from tests.simulation.host import HostClock

if TYPE_CHECKING:
    from tests.simulation.world import World

MESSAGES_PER_STEP = 6
REQUESTS_PER_STEP = 5
INVENTORY_SECONDS = 30.0


class Process:
    """One process: made anew at every start, so that nothing of it survives its death but what it wrote."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.clock = HostClock()
        self.starts = 0
        self.is_alive = False
        self.is_paused = False
        self._listening = contextlib.ExitStack()

    def start(self) -> None:
        self.starts += 1
        self.is_alive = True
        self._listening = contextlib.ExitStack()
        self.set_up()

    def set_up(self) -> None:
        """Make what the process holds in memory."""

    def step(self) -> None:
        """Do one piece of work."""
        raise NotImplementedError

    def die(self) -> None:
        self._listening.close()
        self.is_alive = False

    def hear(self, topic: str, ring: Callable[[], None]) -> None:
        """Listen to a hint as long as the process lives; one in so many is lost on the way."""

        def maybe() -> None:
            if self.world.chance.random() >= self.world.dangers.lose_hint:
                ring()

        self._listening.enter_context(hints.listen(topic, maybe))


class Scheduler(Process):
    """The leader by lease or a standby, and a sequencer: the product's own loops, stepped by hand."""

    def set_up(self) -> None:
        self._stop = threading.Event()
        self._loops = scheduler.loops()
        self._due = dict.fromkeys(range(len(self._loops)), 0.0)
        for place, loop in enumerate(self._loops):
            for topic in loop.topics:
                self.hear(topic, lambda place=place: self._due.update({place: 0.0}))

    def step(self) -> None:
        for place, loop in enumerate(self._loops):
            if self.world.seconds >= self._due[place]:
                self._due[place] = float("inf")
                wait = loop.step(self._stop)
                self._due[place] = min(self._due[place], self.world.seconds + wait)


class Worker(Process):
    """Turns ticks and hints into messages, and messages into the product's tasks."""

    def set_up(self) -> None:
        duties.register()
        ticks.install(database_now())
        self._hinted: dict[tuple[str, str], None] = {}
        for cluster_id in self.world.cluster_ids:
            for prefix, task in duties.cluster_hints().items():
                self.hear(f"{prefix}.{cluster_id}", lambda task=task, key=str(cluster_id): self._remember(task, key))
        for topic, task in duties.plain_hints().items():
            self.hear(topic, lambda task=task: self._remember(task, ""))

    def _remember(self, task: str, cluster_id: str) -> None:
        self._hinted[(task, cluster_id)] = None

    def step(self) -> None:
        ticks.run_due(database_now(), holder=self.name, fire=self._send)
        hinted, self._hinted = self._hinted, {}
        for task, cluster_id in hinted:
            self._send(task, **({"cluster_id": cluster_id} if cluster_id else {}))
        for _ in range(MESSAGES_PER_STEP):
            message = self.world.broker.take(reorder=self.world.is_stormy, double=self.world.dangers.double_message)
            if message is None:
                return
            name, arguments = message
            self.world.in_hand[self.name] = message
            app.tasks[name].run(**dict(arguments))
            del self.world.in_hand[self.name]

    def _send(self, name: str, **arguments: str) -> None:
        self.world.broker.send(name, lose=self.world.dangers.lose_message, **arguments)


class Observer(Process):
    """Looks at every cluster and brings its logs home, by lease."""

    def set_up(self) -> None:
        self._leaders = {
            (cluster_id, what): Leader(poll.lease_name(cluster_id) if what == "watch" else f"{what}.{cluster_id}")
            for cluster_id in self.world.cluster_ids
            for what in ("watch", "pump", "inventory")
        }
        self._inventory_at = 0.0

    def step(self) -> None:
        for (cluster_id, what), leader in self._leaders.items():
            if not leader.holds():
                continue
            if what == "watch":
                poll.poll(cluster_id)
            elif what == "pump":
                pump_live(cluster_id)
            elif self.world.seconds >= self._inventory_at:
                self._inventory_at = self.world.seconds + INVENTORY_SECONDS
                try:
                    record_inventory(cluster_id, engine_for(cluster_id).inventory(), database_now())
                except EngineUnreachable as error:
                    record_contact(cluster_id, reachable=False, detail=str(error), now=database_now())


class Web(Process):
    """Answers clients. It holds nothing; a request lives as long as the call of its client."""

    def step(self) -> None:
        for _ in range(self.world.chance.randint(1, REQUESTS_PER_STEP if not self.world.depth else 2)):
            self.world.clients.act()


ROLES: dict[str, type[Process]] = {"scheduler": Scheduler, "worker": Worker, "observer": Observer, "web": Web}
