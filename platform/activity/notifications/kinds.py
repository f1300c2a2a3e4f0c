"""What a user can be told about, and which event says it: apps register the kinds, this app knows what a message looks like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kernel.lifecycle import lifecycle
from kernel.registry import Registry
from kernel.words import Text


class DeliveryState(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


# FAILED -> PENDING: a user asked for another try. SENT is the end, or a receiver would hear twice.
DELIVERY = lifecycle(
    "delivery",
    DeliveryState,
    {
        DeliveryState.PENDING: {DeliveryState.SENT, DeliveryState.FAILED},
        DeliveryState.FAILED: {DeliveryState.PENDING},
        DeliveryState.SENT: set(),
    },
)


class Shape(StrEnum):
    """What a message is made of: a job as it is now, the numbers of a budget, or words that stand in the event."""

    JOB = "job"
    BUDGET = "budget"
    NOTICE = "notice"


UNTITLED = Text("", "")


@dataclass(frozen=True, slots=True)
class NoticeKind:
    """What users subscribe to, and the events that say it. Lists show kinds by `place`, which leaves gaps for others.

    `title`: of a message about a job, with `{name}` for the job. `came_from`: the event counts only
    where the job comes from one of these states; empty, from any.
    """

    name: str
    place: int
    shape: Shape
    events: frozenset[str]
    title: Text[str] = UNTITLED
    came_from: frozenset[str] = frozenset()
    is_default: bool = False  # Of a subscription that names no kinds.


def job_kind(
    name: str, *, place: int, event: str, title: Text[str], came_from: Iterable[str] = (), is_default: bool = False
) -> NoticeKind:
    """A kind of news of one's jobs."""
    return NoticeKind(name, place, Shape.JOB, frozenset({event}), title, frozenset(came_from), is_default)


def written_kind(name: str, *, place: int) -> NoticeKind:
    """A kind whose words the app itself writes into the event: see `notices.new_notice`."""
    return NoticeKind(name, place, Shape.NOTICE, frozenset({f"notice.{name}"}))


def _missing(name: str, kind: NoticeKind) -> str:
    if kind.shape is Shape.JOB and not ("{name}" in kind.title.en and "{name}" in kind.title.zh):
        return "its title names the job in both languages"
    if not kind.events:
        return "no event says it"
    if any(kind.place == other.place for other in KINDS.values()):
        return f"another kind has its place {kind.place}"
    taken = kind.events & {event for other in KINDS.values() for event in other.events}
    return f"another kind has its events {sorted(taken)}" if taken else ""


KINDS: Registry[NoticeKind] = Registry("notice kind", missing=_missing)


def register_notice_kinds(kinds: Iterable[NoticeKind]) -> None:
    """Called by each app at start, with its own."""
    KINDS.add((kind.name, kind) for kind in kinds)


def kind_names(*, only_default: bool = False) -> list[str]:
    """All kinds in the order of lists; no app may register one afterwards, because the API's description is made of them."""
    KINDS.close()
    in_order = sorted(KINDS.values(), key=lambda kind: kind.place)
    return [kind.name for kind in in_order if kind.is_default or not only_default]


def notice_kind(event_kind: str, data: Mapping[str, Any]) -> NoticeKind | None:
    """What an event means to a subscriber; None for nothing."""
    for kind in KINDS.values():
        if event_kind in kind.events:
            return kind if not kind.came_from or data.get("from") in kind.came_from else None
    return None
