"""A recorder beside a core at work: it writes down events and decisions, so that they can be replayed and compared."""

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
    """A core whose events are written down: a line for each call, handed to `keep` as it happens. `with_decisions`: also what
    each pass decided."""

    def __init__(self, state: State, keep: Callable[[str], None], *, with_decisions: bool = False) -> None:
        self.core = build(state)
        self._written, self._encoding, self._keep = Written("log"), Encoding(), keep
        self._with_decisions = with_decisions
        keep(self._written.begin())
        for plain in plain_state(self._encoding, state):
            keep(self._written.line(plain))

    def tell(self, event: Event) -> tuple[Decision, ...]:
        """Write an event down, then apply it: so an event that fails is in the log."""
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
    """The first pass that decides differently: its moment, its decisions then, and those of now."""

    at: int
    then: tuple[Decision, ...]
    now: tuple[Decision, ...]


class Compared(NamedTuple):
    """How many passes and decisions were replayed, and the first difference; None: all were equal."""

    passes: int
    decisions: int
    difference: Difference | None


def state_at(log: Log, moment: int) -> State:
    """The state that the core of a log was in once it had decided for the last time up to a moment, in seconds."""
    core = build(log.state)
    last = max(
        (number for number, event in enumerate(log.events) if isinstance(event, Decided) and event.now <= moment), default=-1
    )
    for event in log.events[: last + 1]:
        apply(core, event)
    return export(core, log.state)


def decide_again(log: Log) -> Compared:
    """Replay a log and compare the decisions. Nothing is compared after the first difference, because later events follow from
    what was decided."""
    count = 0
    for number, (then, now) in enumerate(zip(log.passes, replay(as_far_as_decided(log)), strict=True), start=1):
        if then != now:
            return Compared(number, count, Difference(then.now, then.decisions, now.decisions))
        count += len(now.decisions)
    return Compared(len(log.passes), count, None)


def as_far_as_decided(log: Log) -> Log:
    """The log up to the last pass whose decisions were written down."""
    left, events = len(log.passes), []
    for event in log.events:
        if isinstance(event, Decided):
            if not left:
                break
            left -= 1
        events.append(event)
    return replace(log, events=tuple(events))
