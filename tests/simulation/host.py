"""What a process takes from its machine - time, chance, identifiers - comes from the seed instead, skewed where it says so."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest import mock

from kernel import ids


@dataclass
class HostClock:
    """The wall clock of one simulated host, which may be wrong, and what its identifiers remember of it."""

    skew_seconds: float = 0.0
    last_millis: int = 0
    sequence: int = 0


class Host:
    """Stands in for the machine while a simulation runs. `seconds` is the true time; `clock` that of the process at work."""

    def __init__(self, chance: random.Random, seconds: Callable[[], float]) -> None:
        self._chance = chance
        self._seconds = seconds
        self._began = seconds()
        self.clock = HostClock()

    def become(self, clock: HostClock) -> None:
        """Go on as another process on another host."""
        self.clock.last_millis, self.clock.sequence = ids._last_millis, ids._sequence
        self.clock = clock
        ids._last_millis, ids._sequence = clock.last_millis, clock.sequence

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        kept = ids._last_millis, ids._sequence
        ids._last_millis = ids._sequence = 0
        with (
            mock.patch.object(time, "time", self._wall),
            mock.patch.object(time, "time_ns", self._wall_nanos),
            mock.patch.object(time, "monotonic", self._monotonic),
            mock.patch.object(time, "sleep", self._no_sleep),
            mock.patch.object(os, "urandom", self._chance.randbytes),
            mock.patch.object(ids, "_followed", None, create=True),
        ):
            try:
                yield
            finally:
                ids._last_millis, ids._sequence = kept

    def _wall(self) -> float:
        return self._seconds() + self.clock.skew_seconds

    def _wall_nanos(self) -> int:
        return int(self._wall() * 1e9)

    def _monotonic(self) -> float:
        return self._seconds() - self._began

    def _no_sleep(self, seconds: float) -> None:
        raise AssertionError(f"somebody slept for {seconds} s: a simulation has no time to wait")
