"""Sieve's three patterns, made from a golden run instead of by hand.

A golden run does a fixed piece of work without any fault and counts the calls of the engine. For each call k the same work is
done again, and

- `kill`: whoever made call k dies right after it, before it can write anything down;
- `drop`: what call k saw is dropped: an observation comes without its items and says so, any other answer is lost;
- `old view`: whoever made call k dies after it, and the first observation of its successor is the one before it once more.

All must end as the golden run did: the same jobs in the same states, nothing done twice, every promise kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from django.db.models import Count

from clusters.engines.fake import Script
from clusters.engines.interface import EngineUnreachable, ExitReason, Observations
from jobs.models import Job
from tests.histories.report import Report
from tests.simulation.fates import CALM, Crash
from tests.simulation.world import World, simulated

SEED = 7  # Of no importance: nothing is drawn but the order in which processes act.
ROUNDS = 6
PATTERNS = ("kill", "drop", "old view")

Meddle = Callable[[World], None]


@dataclass(frozen=True)
class Run:
    """How one run ended: the state of every job by name, and what the checker says."""

    states: dict[str, str]  # With the number of attempts: what is lost from sight may be done twice, and end well.
    calls: list[str]  # The verb of each call, the first one first.
    report: Report
    errors: tuple[str, ...]


def golden() -> Run:
    return run(lambda world: None)


def run(meddle: Meddle) -> Run:
    """Do the work of the golden run while `meddle` has its hand in the calls."""
    with simulated(SEED, storm=CALM) as world:
        calls: list[str] = []
        world.calls.before = lambda number, verb: calls.append(verb)
        meddle(world)
        world.dismiss_clients()
        _submit(world)
        for number in range(ROUNDS):
            world.advance(1.0)
            world.everybody()
            if number == 2:
                _stop(world)
        report = world.finish()
        ends = Job.objects.order_by("id").values_list("name", "state").annotate(count=Count("attempts"))
        states = {name: f"{state} after {count} attempts" for name, state, count in ends}
        return Run(states, calls, report, tuple(world.errors))


def _submit(world: World) -> None:
    """A job that works, one that fails, one that needs two attempts, one that is stopped: one of each fate."""
    clients = world.clients
    printed = b"line 0\nline 1\n"
    scripts = {
        "works": (Script(duration_seconds=1.5, stdout=printed),),
        "fails": (Script(duration_seconds=0.5, code=3, stdout=printed),),
        "again": (Script(duration_seconds=0.5, code=None, signal=9, reason=ExitReason.EVICTED), Script(duration_seconds=0.5)),
        "stops": (Script(duration_seconds=None, stop_seconds=0.5),),
    }
    for name, script in scripts.items():
        clients.scripts[name] = script
        clients.submit(name, {"name": name, "command": "true", "resources": {"cpu": 1, "memory": "64Mi"}})


def _stop(world: World) -> None:
    job = Job.objects.get(name="stops")
    world.clients.stop(str(job.id), grace_seconds=2)


def kill(k: int) -> Meddle:
    def meddle(world: World) -> None:
        def after(number: int, verb: str) -> None:
            if number == k and world.current is not None:
                world.trouble("kill")
                raise Crash

        world.calls.after = after

    return meddle


def drop(k: int) -> Meddle:
    def meddle(world: World) -> None:
        def after(number: int, verb: str) -> None:
            if number == k and verb != "observe":
                world.trouble("call")
                raise EngineUnreachable("the answer was lost")

        def view(number: int, seen: Observations) -> Observations:
            return replace(seen, items=(), complete=False) if number == k else seen

        world.calls.after, world.calls.view = after, view

    return meddle


def old_view(k: int) -> Meddle:
    def meddle(world: World) -> None:
        views: list[Observations] = []
        is_due = False

        def after(number: int, verb: str) -> None:
            nonlocal is_due
            if number == k and world.current is not None:
                world.trouble("kill")
                is_due = True
                raise Crash

        def view(number: int, seen: Observations) -> Observations:
            nonlocal is_due
            views.append(seen)
            if is_due and len(views) > 1:
                is_due = False
                return views[-2]
            return seen

        world.calls.after, world.calls.view = after, view

    return meddle


MEDDLERS: dict[str, Callable[[int], Meddle]] = {"kill": kill, "drop": drop, "old view": old_view}
