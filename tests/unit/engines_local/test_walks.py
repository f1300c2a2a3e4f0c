"""Whose look through files is next: few at once, one of each user, a place kept for pages; and that many of one user wait."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from clusters.engines.local.launching import walks
from clusters.engines.local.launching.verbs import LauncherBusy
from clusters.engines.local.launching.walks import Walks


class Held:
    """A walker whose answers the test gives."""

    running: list[str]
    changed = threading.Condition()

    def exchange(self, message: dict[str, Any]) -> bytes:
        name = message["arguments"]["name"]
        with self.changed:
            self.running.append(name)
            self.changed.notify_all()
            self.changed.wait_for(lambda: name not in self.running)
        return b"{}"

    @classmethod
    def answer(cls, name: str) -> None:
        with cls.changed:
            cls.running.remove(name)
            cls.changed.notify_all()


class Asking:
    """Asks in threads, and goes on when each runs or waits."""

    def __init__(self) -> None:
        self.looks = Walks()

    def __call__(self, name: str, *, user: str, is_long: bool = False, patient: bool = False) -> threading.Thread:
        looks = self.looks
        begun = len(looks._waiting) + len(looks._running)
        verb = "measure_tree" if is_long else "list_directory"
        thread = threading.Thread(target=looks.ask, args=(verb, {"name": name}), kwargs={"user": user, "patient": patient})
        thread.start()
        while len(looks._waiting) + len(looks._running) == begun:
            time.sleep(0.001)
        return thread


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asking:
    Held.running = []
    monkeypatch.setattr(walks, "_Walker", Held)
    return Asking()


def runs(*names: str) -> None:
    with Held.changed:
        assert Held.changed.wait_for(lambda: sorted(Held.running) == sorted(names), timeout=60), Held.running


def test_one_user_with_many_walks_holds_nobody_else_up(asked: Asking) -> None:
    threads = [asked(f"a{number}", user="a", is_long=True) for number in range(3)]
    runs("a0")
    threads.append(asked("b-tree", user="b", is_long=True))
    threads.append(asked("b-page", user="b"))
    runs("a0", "b-page")  # A second walk has no place beside the first; a page has.
    threads.append(asked("c-tree", user="c", is_long=True))
    Held.answer("b-page")
    for done, following in (("a0", "c-tree"), ("c-tree", "a1"), ("a1", "b-tree"), ("b-tree", "a2")):
        Held.answer(done)
        runs(following)  # Of the users who wait, the one who had no turn for the longest.
    Held.answer("a2")
    for thread in threads:
        thread.join()


def test_who_has_many_that_wait_is_told_to_come_again(asked: Asking) -> None:
    threads = [asked(f"a{number}", user="a") for number in range(walks._WAITING_MAX + 1)]
    with pytest.raises(LauncherBusy):
        asked.looks.ask("list_directory", {"name": "more"}, user="a")
    threads.append(asked("platform", user="a", is_long=True, patient=True))  # It waits all the same, and comes before them.
    for name in ("a0", "platform", *(f"a{number}" for number in range(1, walks._WAITING_MAX + 1))):
        runs(name)
        Held.answer(name)
    for thread in threads:
        thread.join()
