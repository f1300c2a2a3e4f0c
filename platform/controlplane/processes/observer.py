"""The observer: per cluster, by lease, it watches what runs, pumps logs into the store and samples use.

Dead, it costs freshness only: polling by the workers alone is correct.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable

import structlog

from clusters.engines.interface import EngineUnreachable
from clusters.selectors import observed_clusters
from clusters.services import CHANGED, ClusterGone, read_inventory, record_contact, record_inventory, refresh_engines
from clusters.services.cluster_cordons import enforce_cordons
from clusters.services.cordons import cordons_topic
from clusters.services.gpu_faults import look_for_faults
from clusters.telemetry import collect, flush
from controlplane.processes.leader import Leader
from controlplane.processes.loops import Loop
from jobs.reconcile import poll
from jobs.reconcile.pump import pump_live
from jobs.services.gpu_faults import look as leave_faulty_gpus
from kernel.clock import database_now
from kernel.config import current
from storage.logs import LogStoreFull

log = structlog.get_logger("observer")

WATCH_SECONDS = 0.2  # How often a cluster is looked at while something runs there.
IDLE_SECONDS = 2.0
ROUND_SECONDS = 1.0  # A longer round gives the lease its turn in between.
GATHER_SHARE = 4.0  # Busy, it works a fifth of the time at most, and leaves the rest to other processes.
GATHER_SECONDS = 0.05  # Attempts that start or end so soon after each other are looked at together.
INVENTORY_SECONDS = 30.0
CLUSTERS_SECONDS = 5.0  # How soon a cluster that was added, changed or removed is noticed where the hint of it was lost.
END_SECONDS = 2.0


def loops() -> list[Loop]:
    """The loop that looks which clusters there are, and runs a set of loops for each."""
    watched = Clusters()
    return [Loop("clusters", watched.step, topics=(CHANGED,), finally_=watched.end)]


class Clusters:
    """The loops of every cluster: started when it is there, ended when it is not any more. One that is disabled is looked at
    on, for what runs there. Loops that hang in a call of a cluster that is gone end with the call, and delay no others."""

    def __init__(self) -> None:
        self._loops: dict[uuid.UUID, list[Loop]] = {}

    def step(self, stop: threading.Event) -> float:
        refresh_engines()
        wanted = set(observed_clusters())
        for cluster_id in wanted - self._loops.keys():
            self._loops[cluster_id] = _cluster_loops(cluster_id)
            for loop in self._loops[cluster_id]:
                loop.start()
        gone = [self._loops.pop(cluster_id) for cluster_id in self._loops.keys() - wanted]
        _end([loop for each in gone for loop in each])
        return CLUSTERS_SECONDS

    def end(self) -> None:
        """End all; each resigns what it leads."""
        loops = [loop for each in self._loops.values() for loop in each]
        self._loops.clear()
        _end(loops)


def _end(loops: list[Loop]) -> None:
    for loop in loops:
        loop.ask_to_end()
    deadline = time.monotonic() + END_SECONDS
    left = [loop.name for loop in loops if not loop.finish(seconds=max(0.0, deadline - time.monotonic()))]
    if left:
        log.warning("loops_left", left=left)


def _cluster_loops(cluster_id: uuid.UUID) -> list[Loop]:
    name = str(cluster_id)[-8:]
    return [
        _led(f"watch-{name}", poll.lease_name(cluster_id), lambda: _watch(cluster_id), (f"poll.{cluster_id}",)),
        _led(f"pump-{name}", f"pump.{cluster_id}", lambda: _pump(cluster_id), (f"poll.{cluster_id}",)),
        _led(f"sample-{name}", f"sample.{cluster_id}", lambda: _sample(cluster_id), (), at_end=_flush),
        _led(f"inventory-{name}", f"inventory.{cluster_id}", lambda: _inventory(cluster_id), (cordons_topic(cluster_id),)),
    ]


def _led(
    name: str, lease: str, work: Callable[[], float], topics: tuple[str, ...], *, at_end: Callable[[], None] | None = None
) -> Loop:
    leader = Leader(lease)
    due_at = 0.0

    def step(stop: threading.Event) -> float:
        nonlocal due_at
        if not leader.holds():
            return IDLE_SECONDS
        if loop.was_hinted or time.monotonic() >= due_at:  # A hint says that there is something to see before its time.
            with leader.working():
                try:
                    due_at = time.monotonic() + work()
                except ClusterGone:  # It was removed a moment ago: the loop is about to end.
                    due_at = time.monotonic() + IDLE_SECONDS
        # Long waits come back in between, so that the lease is renewed in time.
        return min(max(0.0, due_at - time.monotonic()), current().leadership_seconds / 4)

    def end() -> None:
        try:
            if at_end is not None:
                at_end()
        finally:
            leader.resign()

    loop = Loop(name, step, topics=topics, gather_seconds=GATHER_SECONDS, gather_share=GATHER_SHARE, finally_=end)
    return loop


def _watch(cluster_id: uuid.UUID) -> float:
    return WATCH_SECONDS if poll.poll(cluster_id) else IDLE_SECONDS


def _pump(cluster_id: uuid.UUID) -> float:
    """One round over the live attempts. With many of them it rests as long as it worked: half a core, and twice the lag."""
    began = time.monotonic()
    try:
        busy = pump_live(cluster_id)
        while busy.more and time.monotonic() - began < ROUND_SECONDS:
            busy = pump_live(cluster_id)
    except LogStoreFull as error:  # Told once where it was met; output waits in the engine.
        return error.retry_after_seconds or IDLE_SECONDS
    if busy.more:
        return 0.0
    return max(WATCH_SECONDS, time.monotonic() - began) if busy.live else IDLE_SECONDS


def _sample(cluster_id: uuid.UUID) -> float:
    began = time.monotonic()
    collect(cluster_id, now=database_now())
    if look_for_faults(cluster_id, database_now()):
        leave_faulty_gpus(database_now())
    return max(0.1, current().telemetry_seconds - (time.monotonic() - began))


def _flush() -> None:
    flush(database_now())


def _inventory(cluster_id: uuid.UUID) -> float:
    try:
        inventory = read_inventory(cluster_id)
        if enforce_cordons(cluster_id, inventory):
            inventory = read_inventory(cluster_id)
    except EngineUnreachable as error:
        record_contact(cluster_id, reachable=False, detail=str(error), now=database_now())
        return INVENTORY_SECONDS / 3
    record_inventory(cluster_id, inventory, database_now())
    return INVENTORY_SECONDS if inventory.nodes else INVENTORY_SECONDS / 3
