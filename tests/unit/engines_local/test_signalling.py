"""Which processes of a task get the signal of a stop at once, and which later."""

from __future__ import annotations

import signal

import pytest

from clusters.engines.local.launching.verbs import SeenProcess
from clusters.engines.local.signalling import recipients
from kernel.signals import SignalTarget


def seen(pid: int, name: str, *, is_first: bool = False, handles: bool = False) -> SeenProcess:
    return SeenProcess(pid, 100, name, is_first=is_first, handles=handles)


SHELL, PROGRAM, TEE = seen(1, "sh", is_first=True), seen(2, "python3", handles=True), seen(3, "tee")


@pytest.mark.parametrize(
    ("target", "now", "later"),
    [
        (SignalTarget.PROGRAMS, [2], [3]),
        (SignalTarget.ALL, [1, 2, 3], []),
        (SignalTarget.CHILDREN, [2, 3], []),
        (SignalTarget.FIRST, [1], []),
    ],
)
def test_each_target_reaches_its_processes(target: SignalTarget, now: list[int], later: list[int]) -> None:
    told, others = recipients([SHELL, PROGRAM, TEE], signal.SIGUSR1, target)
    assert [pid for pid, _ in told] == now
    assert [pid for pid, _ in others] == later


def test_where_no_process_handles_it_all_get_it_at_once() -> None:
    assert recipients([SHELL, TEE], signal.SIGTERM, SignalTarget.PROGRAMS) == (((1, 100), (3, 100)), ())


def test_a_shell_that_handles_it_is_a_program() -> None:
    shell = seen(1, "bash", is_first=True, handles=True)
    assert recipients([shell, TEE], signal.SIGTERM, SignalTarget.PROGRAMS) == (((1, 100),), ((3, 100),))
    assert recipients([shell, PROGRAM], signal.SIGINT, SignalTarget.PROGRAMS) == (((2, 100),), ())  # Every shell handles it.
    assert recipients([shell, TEE], signal.SIGINT, SignalTarget.PROGRAMS) == (((1, 100), (3, 100)), ())
