"""Beside a core at work: what it is told and what it decides, written down so that it can be decided again and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from jobs.scheduling.core.snapshot import State, build, export
from jobs.scheduling.core.state.decisions import Decision
from jobs.scheduling.replay.encoding import Encoding
from jobs.scheduling.replay.files import Written
from jobs.scheduling.replay.log import NAMES, Decided, Event, Log, PassDecided, apply, plain_item, plain_pass, plain_state, replay


class Recorder:
    """A core that writes down what it is told: a line for each call, handed to `keep` as it happens. `with_decisions`: also what
    each pass decided."""

    def __init__(self, state: State, keep: Callable[[str], None], *, with_decisions: bool = False) -> None:
        self.core = build(state)
        self._written, self._encoding, self._keep = Written("log"), Encoding(), keep
        self._with_decisions = with_decisions
        keep(self._written.begin())
        for plain in plain_state(self._encoding, state):
            keep(self._written.line(plain))

    def tell(self, event: Event) -> tuple[Decision, ...]:
        """It is written down before it happens: whatever comes of it can be looked at again."""
        for plain in plain_item(self._encoding, NAMES[type(event)], event):
            self._keep(self._written.line(plain))
        decided = apply(self.core, event)
        if self._with_decisions and isinstance(event, Decided):
            for plain in plain_pass(self._encoding, PassDecided(event.now, decided)):
                self._keep(self._written.line(plain))
        return decided

    def close(self) -> None:
        self._keep(self._written.end())


class Difference(NamedTuple):
    """The first pass that decides otherwise than it did: at which moment, what was decided then, and what is now."""

    at: int
    then: tuple[Decision, ...]
    now: tuple[Decision, ...]


class Compared(NamedTuple):
    """How many passes and decisions were decided again, and the first difference; None: they were all the same."""

    passes: int
    decisions: int
    difference: Difference | None


def state_at(log: Log, moment: int) -> State:
    """The state that the core of a log was in once it had decided for the last time up to a moment, in seconds."""
    core = build(log.state)
    last = max((number for number, one in enumerate(log.events) if isinstance(one, Decided) and one.now <= moment), default=-1)
    for event in log.events[: last + 1]:
        apply(core, event)
    return export(core, log.state)


def decide_again(log: Log) -> Compared:
    """Decide a log again and compare it with what was decided then. Nothing is compared behind the first difference: what
    happened from there on goes with what was decided."""
    count = 0
    for number, (then, now) in enumerate(zip(log.passes, replay(_as_far_as_decided(log)), strict=True), start=1):
        if then != now:
            return Compared(number, count, Difference(then.now, then.decisions, now.decisions))
        count += len(now.decisions)
    return Compared(len(log.passes), count, None)


def _as_far_as_decided(log: Log) -> Log:
    """Without what came after the last pass of which it was written down what it decided."""
    left, events = len(log.passes), []
    for event in log.events:
        if isinstance(event, Decided):
            if not left:
                break
            left -= 1
        events.append(event)
    return replace(log, events=tuple(events))
