"""Keep a launcher alive: a process with root forks it, and forks the next when it ends.

The platform itself gives root up and could not start another. The keeper does nothing but wait, so that it has nothing to
fail by; connections that come while there is no launcher wait in the socket that it holds open.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import NoReturn

_HEALTHY_SECONDS = 10.0  # One that lived so long did not end by its start; the next one starts at once.
_PAUSE_SECONDS = (0.1, 5.0)  # The first wait before another try, and the longest.
_END_SECONDS = 3.0

logger = logging.getLogger("berth.launcher")


def keep(work: Callable[[], None], *, parent: int) -> None:
    """Run `work` in a child process, again and again, until `parent` (the reading end of a pipe) closes.

    Call it from a process of one thread. The child sees the pipe close by itself; one that does not end then is killed.
    """
    pause = 0.0
    while True:
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _become(work)
        if not _ends_first(child, parent):
            _end(child)
            return
        _, status = os.waitpid(child, 0)
        logger.error("The launcher ended (status %d); another one is started", os.waitstatus_to_exitcode(status))
        healthy = time.monotonic() - began >= _HEALTHY_SECONDS
        pause = 0.0 if healthy else min(_PAUSE_SECONDS[1], max(_PAUSE_SECONDS[0], pause * 2))
        if _closes(parent, pause):
            return


def _become(work: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        logger.exception("The launcher failed")
    finally:
        os._exit(code)


def _ends_first(child: int, parent: int) -> bool:
    """Wait until the child ends (True) or the pipe closes (False)."""
    watched = os.pidfd_open(child)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(watched, selectors.EVENT_READ)
            selector.register(parent, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if parent in ready and not os.read(parent, 1):
                    return False
                if watched in ready:
                    return True
    finally:
        os.close(watched)


def _closes(parent: int, seconds: float) -> bool:
    """Whether the pipe closes within this time."""
    with selectors.DefaultSelector() as selector:
        selector.register(parent, selectors.EVENT_READ)
        return bool(selector.select(seconds)) and not os.read(parent, 1)


def _end(child: int) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
