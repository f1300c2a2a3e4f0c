"""Work in threads that begin at the same moment, each with a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from django.db import connections

T = TypeVar("T")

SECONDS = 100.0


def together(*works: Callable[[], T]) -> list[T]:
    """Run these at once; gives what each of them gave. Raises what any of them raised, and fails where one does not come to its
    end."""
    start, errors = threading.Barrier(len(works)), []
    answers: dict[int, T] = {}

    def run(place: int, work: Callable[[], T]) -> None:
        try:
            start.wait(SECONDS)
            answers[place] = work()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=given, daemon=True) for given in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), f"after {SECONDS} s somebody is still at work"
    return [answers[place] for place in range(len(works))]


def at_once(workers: int, work: Callable[[int], T]) -> list[T]:
    """Run one function in so many threads, as `together` does; each is told its number."""
    return together(*[partial(work, number) for number in range(workers)])
