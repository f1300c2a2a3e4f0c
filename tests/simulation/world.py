"""A whole installation in one thread: processes, people, a cluster and a clock, all driven by one seed.

A step lets the processes act in an order of the seed's. Whatever may go wrong goes wrong by the seed as well: a process dies or
falls asleep at a crash point while the others go on, a call fails before or after it had its effect, a message is lost. In the
end everything is healed, people finish what they began, and the installation comes to rest; then the checker decides.
"""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import structlog
from django.db import connection

from activity import numbering
from activity.models import AuditEvent, Event
from activity.notifications.subscriptions import create_subscription
from clusters.models import Pool
from clusters.selectors import observed_clusters
from clusters.services import engines, record_inventory
from controlplane.celery import app
from images.builder import find_python
from images.services import NewImage, create_image
from jobs.models import Attempt, Job
from jobs.reconcile import poll
from kernel import clock, config, crashpoints
from tenants.models import Queue
from tests.factories import tenants as factories
from tests.factories.clusters import make_cluster, node_facts, use_engine
from tests.factories.tenants import limit, make_cast, make_queue, top_queue
from tests.histories.checker import check
from tests.histories.collect import collect, samples
from tests.histories.records import Record
from tests.histories.report import Report
from tests.simulation.calls import Calls
from tests.simulation.clients import TERMINAL, Clients
from tests.simulation.database import fresh_database
from tests.simulation.fates import CALM, Crash, Dangers, Fates
from tests.simulation.harbour import Harbour
from tests.simulation.host import Host
from tests.simulation.memory import forget_rows, restore_engines
from tests.simulation.messages import Broker, Message
from tests.simulation.processes import ROLES, Process

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
LEASE_SECONDS = 30.0
GRACE_SECONDS = 5.0
TROUBLE_SECONDS = LEASE_SECONDS + 35.0  # A lease of the dead must run out, then a wait that has grown: nobody can be faster.
REST_ROUNDS_MAX = 130  # Twenty minutes: whoever waits then waits for ever.
DEPTH_MAX = 2  # Processes asleep within each other.
CREW = {"scheduler": 2, "worker": 2, "observer": 2, "web": 1}
CEILINGS = {"deep": {"cpu_millis": 10_000}, "deeper": {"cpu_millis": 6_000, "memory_bytes": 300 * 1024**2}}


class World:
    """One simulation. Made by `simulated`; `run` goes on for so many steps, `finish` heals, comes to rest and checks."""

    def __init__(self, seed: int, storm: Dangers, favourite: str = "") -> None:
        self.chance = random.Random(seed)
        self.storm = storm
        self.favourite = favourite
        self.dangers = CALM
        self.seconds = EPOCH.timestamp()
        self.records: list[Record] = []
        self.broker = Broker(self.chance)
        self.in_hand: dict[str, Message] = {}
        self.fates = Fates(self._fate)
        self.host = Host(self.chance, lambda: self.seconds)
        self.grace_seconds = GRACE_SECONDS
        self.processes: list[Process] = []
        self.current: Process | None = None
        self.depth = 0
        self.troubles = 0
        self.errors: list[str] = []
        self.counts: Counter[str] = Counter()
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.cluster_ids: list[uuid.UUID] = []
        self._used: dict[tuple[str, str], dict[str, int]] = {}

    # --- Building ----------------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        with mock.patch.object(factories, "now", return_value=self.now):
            self._found()
        self.cluster_ids = list(observed_clusters())
        for role, number in CREW.items():
            self.processes += [ROLES[role](f"{role}-{place}", self) for place in range(number)]
        self.web = self.processes[-1]
        for process in self.processes:
            self.revive(process)

    def _found(self) -> None:
        """People, queues with ceilings, and a cluster of three machines."""
        cast = make_cast()
        self.clients = Clients(self, {"bob": cast.bob.token})
        nodes = [node_facts(f"node-{number}", cores=32) for number in range(3)]
        self.harbour = Harbour(clock=lambda: self.now, script_for=self.clients.script_for, nodes=nodes, tell=self.tell)
        self.calls = Calls(self, self.harbour)
        use_engine(self.calls)
        cluster = make_cluster("harbour")
        record_inventory(cluster.pk, self.harbour.inventory(), self.now)
        pool = Pool.objects.get(cluster=cluster)
        top = top_queue(cast.tenant)
        deep = make_queue(cast.tenant, "deep", parent=top)
        make_queue(cast.tenant, "deeper", parent=deep)
        for name, ceilings in CEILINGS.items():
            limit(Queue.objects.get(name=name), pool.pk, **ceilings)
        limit(top, pool.pk, cpu_millis=60_000)
        if self.favourite.startswith("activity."):  # Nobody else sends messages: they cost time and teach the others nothing.
            everything = {"kinds": ["failed", "succeeded"], "channel": "mail", "jobs": "all"}
            create_subscription(actor=cast.bob.actor, now=self.now, **everything)
        if ".build." in self.favourite:
            new = NewImage(name="empty", kind="python", requirements="nothing")
            create_image(actor=cast.bob.actor, tenant_id=cast.tenant.pk, new=new, now=self.now)

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def host_now(self) -> datetime:
        """What the host of the process at work believes."""
        return self.now + timedelta(seconds=self.host.clock.skew_seconds)

    @property
    def is_stormy(self) -> bool:
        return self.dangers is not CALM

    def tell(self, at: datetime, source: str, event: str, **data: Any) -> None:
        plain = {
            name: str(value) if not isinstance(value, (int, float, list, dict, type(None))) else value
            for name, value in data.items()
        }
        self.records.append(Record(at.timestamp(), source, event, plain))

    # --- Chance ------------------------------------------------------------------------------------------------------

    def happens(self, probability: float) -> bool:
        """Draws only where something may happen, so that calm costs nothing."""
        return probability > 0 and self.chance.random() < probability

    def trouble(self, what: str, seconds: float = 0.0) -> None:
        """Something was broken now: until it is noticed and mended, no deadline can be kept."""
        self.troubles += 1
        self.counts[what] += 1
        name = f"{what} {self.troubles}"
        self.tell(self.now, "fault", "outage", what=name, process=self.current.name if self.current else "")
        self.tell(self.now + timedelta(seconds=seconds + TROUBLE_SECONDS), "fault", "healed", what=name)

    def _fate(self, point: str) -> Callable[[], None] | None:
        """What becomes of the process that reached a crash point."""
        crash = self.dangers.crash * (25 if point == self.favourite else 1)
        is_first = point == self.favourite and not self.fates.crashed[point]  # Whatever the weather: nobody passes it alive.
        if self.current is not None and (is_first or self.happens(crash)):
            self.fates.crashed[point] += 1
            self.trouble("crash")
            return self.crash
        if not connection.in_atomic_block and self.happens(self.dangers.pause):
            return lambda: self.pause("point")
        return None

    def crash(self) -> None:
        """The process at work dies here."""
        raise Crash

    def maybe_pause(self, where: str) -> None:
        if not connection.in_atomic_block and self.happens(self.dangers.pause):
            self.pause(where)

    def pause(self, where: str) -> None:
        """The process at work sleeps while the others go on; it wakes with what it knew, or never."""
        sleeper = self.current
        if sleeper is None or self.depth >= DEPTH_MAX:
            return
        self.trouble("pause", 60.0)
        sleeper.is_paused = True
        self.depth += 1
        try:
            for _ in range(self.chance.randint(1, 4)):
                self.advance(self.chance.choice([0.5, 5.0, 20.0]))
                self.everybody()
        finally:
            self.depth -= 1
            sleeper.is_paused = False
            self._become(sleeper)
        self.counts[f"pause at {where}"] += 1
        if self.happens(self.dangers.die_paused):
            self.trouble("death asleep")
            raise Crash

    # --- Going on ----------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Storm and calm take turns; people go on all the time."""
        for step in range(steps):
            self.dangers = self.storm if step % 14 < 9 else CALM
            if self.is_stormy:
                self._weather()
            self.advance(self.chance.choice([0.2, 0.5, 1.0, 2.0]))
            self.everybody()

    def everybody(self) -> None:
        """One round: every process that is awake acts once, in an order of the seed's; the dead come back in time."""
        order = list(self.processes)
        self.chance.shuffle(order)
        for process in order:
            if process.is_paused:
                continue
            if not process.is_alive:
                if self.happens(0.5) or not self.is_stormy:
                    self.revive(process)
                continue
            if process is not self.current:
                self.step(process)

    def step(self, process: Process) -> None:
        """Let a process act. A crash unwinds to here; an error is what the outermost loop of a real one would log."""
        previous = self.current
        self._become(process)
        try:
            process.step()
        except Crash:
            self.kill(process)
        except Exception as error:
            self.errors.append(f"{process.name}: {type(error).__name__}: {error}")
            self.counts["errors"] += 1
            if self.counts["errors"] > 200:
                raise
        finally:
            self.current = previous
            if previous is not None:
                self._become(previous)
        self._sample()

    def _sample(self) -> None:
        """Use beside ceilings after every step that changed them."""
        rows = [record for record in samples() if self._used.get((record["queue"], record["pool"])) != record["used"]]
        self._used.update({(record["queue"], record["pool"]): record["used"] for record in rows})
        self.records += rows

    def kill(self, process: Process) -> None:
        """Its memory is gone; a message in its hand comes back, because it was not acknowledged."""
        process.die()
        forget_rows()
        message = self.in_hand.pop(process.name, None)
        if message is not None and message not in self.broker.waiting:
            self.broker.waiting.append(message)
        self.counts[f"{process.name.partition('-')[0]} died"] += 1

    def revive(self, process: Process) -> None:
        self._become(process)
        process.start()
        self.current = None

    @contextlib.contextmanager
    def acting(self, process: Process) -> Iterator[None]:
        """Do what the block does as this process."""
        previous = self.current
        self._become(process)
        try:
            yield
        finally:
            self.current = previous

    def _become(self, process: Process) -> None:
        self.current = process
        self.host.become(process.clock)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        due = [action for at, action in self._later if at <= self.seconds]
        self._later = [(at, action) for at, action in self._later if at > self.seconds]
        for action in due:
            action()

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((self.seconds + seconds, action))

    # --- Weather -----------------------------------------------------------------------------------------------------

    def _weather(self) -> None:
        """What befalls the installation from outside, between two steps."""
        dangers, chance = self.dangers, self.chance
        awake = [process for process in self.processes if process.is_alive]
        if self.happens(dangers.kill) and awake:
            self.trouble("kill")
            self.kill(chance.choice(awake))
        if self.happens(dangers.flush_broker):
            self.trouble("flush")
            self.broker.flush()
        if self.happens(dangers.outage) and not self.harbour.faults.is_down:
            seconds = chance.choice([3.0, 20.0, 90.0])
            self.trouble("outage", seconds)
            self.harbour.faults.is_down = True
            self.later(seconds, lambda: setattr(self.harbour.faults, "is_down", False))
        if self.happens(dangers.step_clock):
            self.counts["clock step"] += 1
            chance.choice(self.processes).clock.skew_seconds = chance.choice(
                [-86_400.0, -3_600.0, -5.0, 0.0, 5.0, 3_600.0, 86_400.0]
            )
        if self.happens(dangers.leap):
            self.trouble("leap")
            self.advance(chance.choice([LEASE_SECONDS + 1, 120.0]))
        self._cluster_weather()

    def _cluster_weather(self) -> None:
        dangers, chance = self.dangers, self.chance
        if self.happens(dangers.lose_node):
            self.trouble("node lost")
            self.harbour.lose_node(f"node-{chance.randrange(3)}")
        present = sorted(self.harbour.state.attempts)
        # Not before its launch is written down: an engine that was made to forget it has no way to refuse it the second time.
        known = Attempt.objects.filter(launched_at__isnull=False).values_list("id", flat=True)
        if self.happens(dangers.delete) and (launched := sorted({*present} & {*known})):
            self.trouble("deleted by hand")
            self.harbour.delete(chance.choice(launched))
        if self.happens(dangers.cut_off) and present:
            seconds, attempt_id = chance.choice([5.0, 60.0]), chance.choice(present)
            self.trouble("cut off", seconds)
            self.harbour.cut_off(attempt_id)
            self.later(seconds, lambda: self._back_in_contact(attempt_id))

    def _back_in_contact(self, attempt_id: uuid.UUID) -> None:
        if attempt_id in self.harbour.state.attempts:
            self.harbour.cut_off(attempt_id, is_cut=False)

    # --- Coming to rest ----------------------------------------------------------------------------------------------

    def finish(self) -> Report:
        """Heal everything, let people finish and the installation come to rest, then decide over the whole history."""
        self.dangers = CALM
        self.harbour.faults.is_down = False
        for attempt_id in self.harbour.state.attempts:
            self.harbour.cut_off(attempt_id, is_cut=False)
        for process in self.processes:
            if not process.is_alive:
                self.revive(process)
        self._become(self.web)
        self.clients.settle()
        self.clients.settle()  # What was not answered before is known by now.
        self.current = None
        self.dismiss_clients()
        for number in range(REST_ROUNDS_MAX):
            self.advance(1.0 if number < 12 else 5.0 if number < 60 else 15.0)
            self.everybody()
            if number % 3 == 0 and self._is_at_rest():
                break
        return self._close()

    def dismiss_clients(self) -> None:
        """Nobody asks for anything any more, unless by a call from outside."""
        self.processes = [process for process in self.processes if process is not self.web]

    def _is_at_rest(self) -> bool:
        if self.broker.waiting or Attempt.objects.filter(forgotten=False).exists():
            return False
        if Event.objects.filter(seq__isnull=True).exists() or AuditEvent.objects.filter(seq__isnull=True).exists():
            return False
        waiting = Job.objects.exclude(state__in=TERMINAL)
        held = set(waiting.filter(hold=True).values_list("id", flat=True))
        rest = waiting.filter(hold=False, array_size__isnull=True, open_dependencies=0)
        return not rest.exists() or (not held and not waiting.exists())

    def _close(self) -> Report:
        for attempt_id, alive in self.harbour.list_objects():
            self.harbour.testify(attempt_id)
            self.tell(self.now, "engine", "object", attempt=attempt_id, alive=alive)
        self.records.extend(collect())
        return check(self.records)

    @property
    def lifecycles(self) -> int:
        """Jobs that have ended, arrays counted by their children."""
        return Job.objects.filter(state__in=TERMINAL, array_size__isnull=True).count()


@contextlib.contextmanager
def simulated(seed: int, *, storm: Dangers, favourite: str = "") -> Iterator[World]:
    """A world of this seed, with everything of this machine replaced while the block runs."""
    world = World(seed, storm, favourite)
    folder = Path(tempfile.mkdtemp(prefix="berth-simulation-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    before = config.current()
    known, made = dict(engines._factories), dict(engines._engines)
    app.finalize()
    app.loader.import_default_modules()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(config.replace, before)
        config.replace(
            replace(
                before, data_dir=folder, lease_seconds=LEASE_SECONDS, sweep_seconds=30.0, poll_seconds=1.0, redis_url="",
                scheduler_least_runtime_seconds=1.0,
                database_url="", grace_seconds=GRACE_SECONDS, retry_backoff_seconds=2.0, retry_backoff_seconds_max=20.0,
                requests_per_minute=0, start_timeout_seconds=600.0,
            )
        )  # fmt: skip
        stack.enter_context(fresh_database())
        stack.enter_context(numbering.afterwards())
        stack.enter_context(clock.virtual(lambda: world.now))
        stack.enter_context(mock.patch.object(poll, "host_now", world.host_now, create=True))
        stack.enter_context(_alarms(world.errors))
        stack.enter_context(_fates(world.fates))
        find_python()  # Asks another process once, and waits for it: nothing may wait further down.
        stack.enter_context(world.host.installed())
        stack.callback(restore_engines, known, made)
        stack.callback(forget_rows)
        restore_engines(known, {})
        forget_rows()
        world.set_up()
        yield world


@contextlib.contextmanager
def _fates(fates: Fates) -> Iterator[None]:
    kept = crashpoints._actions
    crashpoints._actions = fates
    try:
        yield
    finally:
        crashpoints._actions = kept


@contextlib.contextmanager
def _alarms(errors: list[str]) -> Iterator[None]:
    """A storm logs thousands of expected warnings; what the product itself calls an error is one, and so is any exception that
    a handler did not expect: it blames a row for it and goes on.
    """

    def note(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        if method == "warning" and event.get("event") != "poison":
            raise structlog.DropEvent
        cause = event.get("exc_info")
        cause = sys.exc_info()[1] if cause is True else cause
        told = {name: value for name, value in event.items() if name != "exc_info"}
        errors.append(f"the product: {told} {type(cause).__name__}: {cause}" if cause else f"the product: {told}")
        raise structlog.DropEvent

    kept = structlog.get_config()
    logging.disable(logging.CRITICAL)
    structlog.configure(
        processors=[note], wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING), cache_logger_on_first_use=False
    )
    try:
        yield
    finally:
        structlog.configure(**kept)
        logging.disable(logging.NOTSET)
