"""What processes hold of the cluster: every call passes the seed's dangers before and after it reaches the harbour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from clusters.engines.interface import (
    AttemptId,
    Cursor,
    EngineUnreachable,
    Ensured,
    Forgotten,
    GiveUp,
    Gone,
    Inventory,
    LogChunks,
    LogCursor,
    Observations,
    OutputFile,
    Retry,
    Stop,
    Stopping,
    Stream,
    TaskName,
    Workload,
)
from tests.simulation.harbour import Harbour

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")
KEPT_VIEWS = 4


class Calls:
    """An engine over an unreliable line. Answers may be refused, lost, late, partial or old; what was done stays done."""

    def __init__(self, world: World, harbour: Harbour) -> None:
        self.world = world
        self.harbour = harbour
        self.counts: Counter[str] = Counter()
        self._views: list[Observations] = []
        # Sieve's patterns decide by the number of the call instead of by chance.
        self.before: Callable[[int, str], None] | None = None
        self.after: Callable[[int, str], None] | None = None
        self.view: Callable[[int, Observations], Observations] | None = None
        self.number = 0

    def _call(self, verb: str, act: Callable[[], T]) -> T:
        world, dangers = self.world, self.world.dangers
        self.number += 1
        number = self.number
        if self.before is not None:
            self.before(number, verb)
        if world.happens(dangers.refuse):
            self.counts[f"{verb} refused"] += 1
            world.trouble("call")
            raise EngineUnreachable(f"{verb}: no answer")
        world.maybe_pause("call")
        answer = act()
        self.counts[verb] += 1
        world.maybe_pause("call")
        if world.happens(dangers.lose_reply):
            self.counts[f"{verb} reply lost"] += 1
            world.trouble("call")
            raise EngineUnreachable(f"{verb}: the answer was lost")
        if self.after is not None:
            self.after(number, verb)
        return answer

    def _some_later(self, ids: Sequence[AttemptId]) -> dict[AttemptId, Retry]:
        """Items that the engine asks to bring again."""
        chance = self.world.dangers.retry
        late = {each: Retry(each, "busy", "Too many calls.", 2.0) for each in ids if self.world.happens(chance)}
        if late:
            self.world.trouble("busy")
        return late

    def ensure(self, workloads: Sequence[Workload]) -> Sequence[Ensured | Retry | GiveUp]:
        late = self._some_later([workload.attempt_id for workload in workloads])
        wanted = [workload for workload in workloads if workload.attempt_id not in late]
        answers = iter(self._call("ensure", lambda: self.harbour.ensure(wanted)))
        return [late.get(workload.attempt_id) or next(answers) for workload in workloads]

    def stop(self, stops: Sequence[Stop]) -> Sequence[Stopping | Gone | Retry]:
        late = self._some_later([stop.attempt_id for stop in stops])
        wanted = [stop for stop in stops if stop.attempt_id not in late]
        answers = iter(self._call("stop", lambda: self.harbour.stop(wanted)))
        return [late.get(stop.attempt_id) or next(answers) for stop in stops]

    def forget(self, attempts: Sequence[AttemptId]) -> Sequence[Forgotten | Retry]:
        late = self._some_later(attempts)
        wanted = [attempt for attempt in attempts if attempt not in late]
        answers = iter(self._call("forget", lambda: self.harbour.forget(wanted)))
        return [late.get(attempt) or next(answers) for attempt in attempts]

    def observe(self, cursor: Cursor | None) -> Observations:
        world = self.world
        skew = timedelta(seconds=world.current.clock.skew_seconds if world.current else 0.0)
        seen = self._call("observe", lambda: self.harbour.observe(cursor))
        seen = replace(seen, read_at=seen.read_at + skew)  # An engine of this host has this host's clock.
        self._views = [*self._views[-KEPT_VIEWS + 1 :], seen]
        if self.view is not None:
            return self.view(self.number, seen)
        if world.happens(world.dangers.stale):
            self.counts["stale views"] += 1
            return world.chance.choice(self._views)
        if world.happens(world.dangers.partial):
            self.counts["partial views"] += 1
            shown = tuple(item for item in seen.items if world.chance.random() < 0.5)
            return replace(seen, items=shown, complete=False)
        return seen

    def logs(self, attempt: AttemptId, task: TaskName, stream: Stream, cursor: LogCursor | None) -> LogChunks:
        return self._call("logs", lambda: self.harbour.logs(attempt, task, stream, cursor))

    def inventory(self) -> Inventory:
        return self._call("inventory", self.harbour.inventory)

    def list_outputs(self, attempt: AttemptId, paths: Sequence[str]) -> Sequence[OutputFile]:
        return self._call("list_outputs", lambda: self.harbour.list_outputs(attempt, paths))

    def open_output(self, attempt: AttemptId, path: str) -> int:
        return self._call("open_output", lambda: self.harbour.open_output(attempt, path))
