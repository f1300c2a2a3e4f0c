"""Work in threads that begin at the same moment, each with a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.db import connections

SECONDS = 100.0


def together(*works: Callable[[], object]) -> None:
    """Run these at once; raises what any of them raised, and fails where one does not come to its end."""
    start, errors = threading.Barrier(len(works)), []

    def run(work: Callable[[], object]) -> None:
        try:
            start.wait(SECONDS)
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), f"after {SECONDS} s somebody is still at work"
