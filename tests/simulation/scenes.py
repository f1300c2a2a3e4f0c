"""Scenes: one danger each, set up on purpose, in the few steps that show it. Each gives the list of what it found wrong.

`python -m tests.simulation --scene "zombies"` plays one; tests play all.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

from clusters.engines.fake import Script
from clusters.models import Pool
from jobs.models import Attempt, Job
from jobs.reconcile import finish, launch, poll, stopping
from kernel import crashpoints
from tenants.models import Queue
from tests.factories import tenants as factories
from tests.simulation import sieve
from tests.simulation.fates import CALM, STORM, Crash, Dangers
from tests.simulation.rounds import run_seed
from tests.simulation.world import LEASE_SECONDS, World, simulated

SEED = 11
SPEC = {"command": "true", "resources": {"cpu": 1, "memory": "64Mi"}}
LEASED = ("state", "lease_token", "lease_expires_at", "launched_at", "due_at", "tries", "forgotten", "stop_sent_at")


def calm() -> list[str]:
    """People at work, nothing goes wrong."""
    return _of_seed(SEED, CALM, steps=8)


def storm(seed: str, favourite: str = "", steps: str = "5") -> list[str]:
    """A storm of this seed, strongest at one crash point."""
    return _of_seed(int(seed), STORM, steps=int(steps), favourite=favourite)


def answers() -> list[str]:
    """Every second answer is lost on its way to the client, who asks again."""
    return _of_seed(SEED, replace(CALM, lost_answer=0.5), steps=8)


def contact() -> list[str]:
    """The engine loses sight of an attempt that runs on, and finds it again."""
    with _one_job(Script(duration_seconds=30.0, stdout=b"line 0\n")) as world:
        _rounds(world, world.processes, 4)
        attempt_id = Attempt.objects.get(job__name="prey").id
        world.harbour.cut_off(attempt_id)
        world.trouble("cut off", 5.0)
        _rounds(world, world.processes, 5)
        world.harbour.cut_off(attempt_id, is_cut=False)
        return _end(world, {"prey": "succeeded"}, attempts=1)


def stale() -> list[str]:
    """Most lists are old ones."""
    return _of_seed(SEED, replace(CALM, stale=0.7), steps=9)


def refused() -> list[str]:
    """A third of all calls of the engine are refused before they do anything."""
    return _of_seed(SEED, replace(CALM, refuse=0.3), steps=5)


def hurry() -> list[str]:
    """Jobs are stopped between their admission and their launch."""
    with simulated(SEED, storm=CALM) as world:
        world.dismiss_clients()
        names = [f"short-{number}" for number in range(6)]
        for name in names:
            world.clients.scripts[name] = (Script(duration_seconds=2.0),)
            world.clients.submit(name, {"name": name, **SPEC})
        _rounds(world, [process for process in world.processes if process.name.startswith("scheduler")], 3)
        for job in Job.objects.filter(name__in=names[:4]).order_by("id"):
            world.clients.stop(str(job.id), grace_seconds=1)
        _rounds(world, world.processes, 3)
        report = world.finish()
        states = list(Job.objects.order_by("id").values_list("state", flat=True))
        found = [f"{violation.invariant}: {violation.what}" for violation in report.violations]
        if states != ["stopped"] * 4 + ["succeeded"] * 2:
            found.append(f"the jobs are {states}")
        return found + [f"unexpected error of {error}" for error in world.errors]


def clocks() -> list[str]:
    """All hosts are a day behind the database, then one is a day ahead."""

    def prepare(world: World) -> None:
        for place, process in enumerate(world.processes):
            process.clock.skew_seconds = 86_400.0 if place == 1 else -86_400.0

    return _of_seed(SEED, CALM, steps=4, prepare=prepare)


def _of_seed(seed: int, dangers: Dangers, **given: Any) -> list[str]:
    outcome = run_seed(seed, storm=dangers, **given)
    found = [f"{violation.invariant}: {violation.what}" for violation in outcome.report.violations]
    return found + [f"unexpected error of {error}" for error in outcome.errors]


# --- Sieve -----------------------------------------------------------------------------------------------------------


def sieved(pattern: str, verb: str) -> list[str]:
    """One of Sieve's patterns at all calls of one verb."""
    golden = sieve.golden()
    found = []
    for k, each in enumerate(golden.calls, start=1):
        if each == verb and not found:
            done = sieve.run(sieve.MEDDLERS[pattern](k))
            found += [f"at call {k}: {violation.invariant}: {violation.what}" for violation in done.report.violations]
            found += [f"at call {k}: {error}" for error in done.errors]
            if done.states != golden.states:
                found.append(f"at call {k}: {done.states} instead of {golden.states}")
    return found


# --- Workers that wake with stale leases --------------------------------------------------------------------------


def zombies() -> list[str]:
    """A worker falls asleep with work in hand, its lease runs out, others do the work: what it writes then changes nothing. Ends
    with the first place where something is wrong."""
    return next(filter(None, _at_each_place()), [])


def _at_each_place() -> Iterator[list[str]]:
    yield _zombie("call ensure", lambda world: launch.launch(world.cluster_ids[0]))
    yield _zombie("jobs.launch.after_ensure", lambda world: launch.launch(world.cluster_ids[0]))
    yield _zombie("jobs.stop.after_engine", lambda world: stopping.stop(world.cluster_ids[0]), stop=True)
    yield _zombie("jobs.finish.after_logs", lambda world: finish.finish(world.cluster_ids[0]), ended=True)
    yield _zombie("jobs.finish.after_forget", lambda world: finish.finish(world.cluster_ids[0]), ended=True)


def _zombie(point: str, work: Callable[[World], object], *, stop: bool = False, ended: bool = False) -> list[str]:
    found: list[str] = []
    with simulated(SEED, storm=CALM) as world:
        world.dismiss_clients()
        world.clients.scripts["prey"] = (Script(duration_seconds=None if stop else 1.0, stop_seconds=3.0, stdout=b"line 0\n"),)
        world.clients.submit("prey", {"name": "prey", **SPEC})
        crew = world.processes
        scheduler = [process for process in crew if process.name.startswith("scheduler")]
        _rounds(world, scheduler, 3)
        cluster_id = world.cluster_ids[0]
        if stop or ended:
            launch.launch(cluster_id)
            world.advance(2.0)
            poll.poll(cluster_id)
        if stop:
            world.clients.stop(str(Job.objects.get(name="prey").id), grace_seconds=5)
        woken: dict[str, object] = {}

        def asleep() -> None:
            before = _rows()
            world.advance(1.0)
            _rounds(world, [process for process in crew if process.name.startswith("worker")], 1)
            if _rows()["lease_token"] != before["lease_token"]:
                found.append(f"{point}: others took a row whose lease had not run out")
            world.trouble("pause", LEASE_SECONDS)
            world.advance(LEASE_SECONDS + 1)
            _rounds(world, crew, 4)
            woken.update(_rows())

        _arm(world, point, asleep)
        work(world)
        if not woken:
            found.append(f"nobody passed {point}")
        rows = _rows()
        changed = [name for name in LEASED if rows[name] != woken.get(name)]
        if woken and changed:
            found.append(f"{point}: a worker whose lease had run out changed {', '.join(changed)}")
        report = world.finish()
        found += [f"{point}: {violation.invariant}: {violation.what}" for violation in report.violations]
        found += [f"{point}: {error}" for error in world.errors]
    return found


def _arm(world: World, point: str, asleep: Callable[[], None]) -> None:
    """Run `asleep` once at a crash point, or before a call of the engine (`call <verb>`)."""
    if not point.startswith("call "):
        crashpoints.arm(point, asleep)
        return

    def before(number: int, verb: str) -> None:
        if f"call {verb}" == point:
            world.calls.before = None
            asleep()

    world.calls.before = before


def _rows() -> dict[str, object]:
    return dict(Attempt.objects.filter(job__name="prey").order_by("number").values(*LEASED)[0])


def _rounds(world: World, processes: list[Any], number: int) -> None:
    for _ in range(number):
        world.advance(1.0)
        for process in processes:
            world.step(process)


def observers() -> list[str]:
    """One who looks falls asleep between looking and writing; meanwhile others end the attempt and start the next one."""
    found: list[str] = []
    with simulated(SEED, storm=CALM) as world:
        world.dismiss_clients()
        well = Script(duration_seconds=60.0, stdout=b"line 0\n")
        world.clients.scripts["prey"] = (Script(duration_seconds=1.0, code=1, stdout=b"line 0\n"), well)
        world.clients.submit("prey", {"name": "prey", **SPEC, "retry": {"limit": 2, "on": ["user"]}})
        crew = world.processes
        _rounds(world, [process for process in crew if process.name.startswith("scheduler")], 3)
        launch.launch(world.cluster_ids[0])
        world.advance(2.0)
        slept = False

        def before(number: int, verb: str) -> None:
            nonlocal slept
            if verb == "logs" and not slept:
                slept = True
                world.trouble("pause", LEASE_SECONDS)
                _rounds(world, crew, 15)

        world.calls.before = before
        poll.poll(world.cluster_ids[0])
        if not slept or Attempt.objects.count() < 2:
            found.append("nobody slept, or nothing happened meanwhile")
        report = world.finish()
        found += [f"{violation.invariant}: {violation.what}" for violation in report.violations]
        found += [f"unexpected error of {error}" for error in world.errors]
        if Job.objects.get(name="prey").state != "succeeded":
            found.append(f"the job is {Job.objects.get(name='prey').state}")
    return found


def chain() -> list[str]:
    """A job that waits is stopped; others waited for its end, and others for its success."""
    with simulated(SEED, storm=CALM) as world:
        world.dismiss_clients()
        for name in ("first", "any", "ok"):
            world.clients.scripts[name] = (Script(duration_seconds=1.0),)
        world.clients.submit("first", {"name": "first", **SPEC, "hold": True})
        first = str(Job.objects.get(name="first").id)
        world.clients.submit("any", {"name": "any", **SPEC, "after_any": [first]})
        world.clients.submit("ok", {"name": "ok", **SPEC, "after_ok": [first]})
        _rounds(world, world.processes, 3)
        world.clients.stop(first)
        return _end(world, {"first": "stopped", "any": "succeeded", "ok": "stopped"}, attempts=1)


def keyless() -> list[str]:
    """The server dies under submissions without a key, before and after their commit."""
    with simulated(SEED, storm=CALM) as world:
        world.dismiss_clients()
        for name, point in {"lost": "jobs.submit.before_commit", "kept": "jobs.submit.after_commit"}.items():
            world.clients.scripts[name] = (Script(duration_seconds=1.0),)
            crashpoints.arm(point, world.crash)
            with contextlib.suppress(Crash), world.acting(world.web):
                world.clients.submit(name, {"name": name, **SPEC}, with_key=False)
        return _end(world, {"kept": "succeeded"}, attempts=1)


def skewed() -> list[str]:
    """One whose clock is an hour ahead looks before a job is launched, and writes down what it saw afterwards."""
    with _one_job(Script(duration_seconds=20.0, stdout=b"line 0\n")) as world:
        observer = next(process for process in world.processes if process.name.startswith("observer"))
        observer.clock.skew_seconds = 3_600.0

        def asleep() -> None:
            launch.launch(world.cluster_ids[0])
            world.advance(0.5)

        another = _running_one(world)
        crashpoints.arm("jobs.poll.after_observe", asleep)
        with world.acting(observer):
            poll.poll(world.cluster_ids[0])
        found = [] if another else ["nothing ran before"]
        return found + _end(world, {"prey": "succeeded", "other": "succeeded"}, attempts=2)


def orphan() -> list[str]:
    """A worker dies between the launch and writing it down; then the job is stopped before anybody launches it again."""
    found = []
    for seconds, state in ((0.5, "succeeded"), (60.0, "stopped")):
        with _one_job(Script(duration_seconds=seconds, stop_seconds=0.5, stdout=b"line 0\nline 1\n")) as world:
            worker = next(process for process in world.processes if process.name.startswith("worker"))
            crashpoints.arm("jobs.launch.after_ensure", world.crash)
            world.trouble("crash")
            while worker.is_alive:
                world.advance(1.0)
                world.step(worker)
            world.advance(2.0)
            world.clients.stop(str(Job.objects.get(name="prey").id), grace_seconds=1)
            found += _end(world, {"prey": state}, attempts=1)
    return found


def deaf() -> list[str]:
    """The engine does not answer when it is asked to start for the first time, nor when it is told of a stop."""
    with _one_job(Script(duration_seconds=None, stop_seconds=0.5)) as world:
        world.harbour.faults.refuse("ensure")
        launch.launch(world.cluster_ids[0])
        _rounds(world, world.processes, 8)
        world.clients.stop(str(Job.objects.get(name="prey").id), grace_seconds=1)
        world.harbour.faults.refuse("stop", 2)
        world.trouble("call")
        _rounds(world, world.processes, 2)
        return _end(world, {"prey": "stopped"}, attempts=1)


@contextlib.contextmanager
def _one_job(script: Script) -> Iterator[World]:
    """A job with this script, admitted and not launched."""
    with simulated(SEED, storm=CALM) as world:
        world.dismiss_clients()
        world.clients.scripts["prey"] = (script,)
        world.clients.submit("prey", {"name": "prey", **SPEC})
        _rounds(world, [process for process in world.processes if process.name.startswith("scheduler")], 3)
        yield world


def _running_one(world: World) -> bool:
    """Another job, launched before: whoever looks finds something to look for."""
    world.clients.scripts["other"] = (Script(duration_seconds=30.0),)
    Attempt.objects.update(due_at=world.now + timedelta(hours=1))
    world.clients.submit("other", {"name": "other", **SPEC})
    _rounds(world, [process for process in world.processes if process.name.startswith("scheduler")], 3)
    launched = launch.launch(world.cluster_ids[0])
    Attempt.objects.filter(job__name="prey").update(due_at=world.now)
    world.advance(3.0)
    return launched == 1


def _end(world: World, states: dict[str, str], *, attempts: int) -> list[str]:
    report = world.finish()
    found = [f"{violation.invariant}: {violation.what}" for violation in report.violations]
    found += [f"unexpected error of {error}" for error in world.errors]
    ended = dict(Job.objects.order_by("id").values_list("name", "state"))
    if ended != states or Attempt.objects.count() != attempts:
        found.append(f"the jobs are {ended} after {Attempt.objects.count()} attempts")
    return found


def quota() -> list[str]:
    """Two queues ask at once for what each of them may use, and the queue above both may not."""
    found: list[str] = []
    with simulated(SEED, storm=CALM) as world:
        world.dismiss_clients()
        with mock.patch.object(factories, "now", return_value=world.now):
            above = Queue.objects.select_related("tenant").get(name="deep")
            assert above.tenant is not None
            beside = factories.make_queue(above.tenant, "beside", parent=above)
            factories.limit(beside, Pool.objects.get().pk, cpu_millis=9_000)
        chance = random.Random(SEED)
        for number in range(24):
            name = f"many-{number}"
            world.clients.scripts[name] = (Script(duration_seconds=chance.choice([1.0, 4.0])),)
            spec = {"name": name, **SPEC, "queue": ("deeper", "beside")[number % 2]}
            world.clients.submit(name, spec)
        for _ in range(4):
            world.advance(1.0)
            world.everybody()
        report = world.finish()
        found += [f"{violation.invariant}: {violation.what}" for violation in report.violations]
    return found + [f"unexpected error of {error}" for error in world.errors]


SCENES: dict[str, Callable[..., list[str]]] = {
    "calm": calm,
    "storm": storm,
    "answers": answers,
    "contact": contact,
    "stale": stale,
    "refused": refused,
    "hurry": hurry,
    "clocks": clocks,
    "sieve": sieved,
    "zombies": zombies,
    "observers": observers,
    "quota": quota,
    "skewed": skewed,
    "orphan": orphan,
    "deaf": deaf,
    "keyless": keyless,
    "chain": chain,
}


def play(words: str) -> list[str]:
    """Play a scene given as `name argument ...`."""
    name, *arguments = words.split()
    return SCENES[name](*arguments)
