"""Places for shells, and what is undone when one cannot be given away."""

from __future__ import annotations

import errno
import os

import pytest

from clusters.engines.local.launching import shells
from clusters.engines.local.launching.policy import Policy
from clusters.engines.local.launching.shells import SHELLS_MAX, SHELLS_PER_TENANT, SHELLS_PER_USER, Shell, Shells, Slots
from clusters.engines.local.launching.verbs import OpenShell


def ask(tenant: str, user: str) -> OpenShell:
    return OpenShell("/srv", "attempt", "worker-0", tenant=tenant, user=user)


def refused(slots: Slots, tenant: str, user: str) -> str:
    with pytest.raises(OSError, match="shells are open") as error:
        slots.take(ask(tenant, user))
    assert error.value.errno == errno.EAGAIN
    return str(error.value)


def test_a_person_and_a_tenant_have_a_share_of_a_hosts_shells() -> None:
    slots = Slots()
    for _ in range(SHELLS_PER_USER):
        slots.take(ask("vision", "alice"))
    assert "this person" in refused(slots, "vision", "alice")
    for number in range(SHELLS_PER_TENANT - SHELLS_PER_USER):
        slots.take(ask("vision", f"user-{number}"))
    assert "this tenant" in refused(slots, "vision", "bob")

    for number in range(SHELLS_MAX - SHELLS_PER_TENANT):
        slots.take(ask("language", f"reader-{number // SHELLS_PER_USER}"))
    assert "on this host" in refused(slots, "third", "carol")


def test_a_shell_that_has_ended_gives_its_place_back_to_all_whose_share_it_was() -> None:
    slots = Slots()
    given = [slots.take(ask("vision", "alice")) for _ in range(SHELLS_PER_USER)]
    given.pop()()

    slots.take(ask("vision", "alice"))
    refused(slots, "vision", "alice")
    for give_back in given:
        give_back()
    assert [slots.take(ask("vision", "alice")) for _ in range(SHELLS_PER_USER - 1)]


def test_a_task_is_looked_for_by_no_more_than_have_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a task that hides its marker this takes seconds, and a look at all processes every few milliseconds."""
    found = Shells(Policy(("/srv",), 200_000, 300_000, 1, 1, drop_rights=False))
    looking: list[int] = []

    def find(which: OpenShell, policy: Policy) -> None:
        looking.append(1)
        found.start(which)  # Another one comes meanwhile.

    monkeypatch.setattr(shells, "_find", find)
    for _ in range(2):
        looking.clear()
        with pytest.raises(OSError, match="for this person"):
            found.start(ask("vision", "alice"))
        assert len(looking) == SHELLS_PER_USER, "each place is given back"


@pytest.mark.parametrize("which", [1, 2])
def test_what_cannot_be_given_away_leaves_nothing_open(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (theirs, output_end), (input_end, ours) = os.pipe(), os.pipe()
    ended: list[bool] = []
    shell = Shell(0, ours, theirs, (), lambda: ended.append(True))
    duplicate, asked = os.dup, []

    def dup(descriptor: int) -> int:
        asked.append(descriptor)
        if len(asked) == which:
            raise OSError(errno.EMFILE, "Too many open files")
        return duplicate(descriptor)

    monkeypatch.setattr(os, "dup", dup)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Too many open files"):
        shell.keep_beside()

    assert before - len(os.listdir("/proc/self/fd")) == 2  # Both that it had, and nothing new.
    assert ended == [True]
    for descriptor in (input_end, output_end):
        os.close(descriptor)
