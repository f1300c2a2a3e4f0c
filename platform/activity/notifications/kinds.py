"""What a user can be told about, and which event says it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from kernel.lifecycle import lifecycle


class NoticeKind(StrEnum):
    """What happened to a job. RETRIED: an attempt is over and the job waits for the next one. BUDGET: a share of one is spent.
    PRIORITY: somebody asked for a higher one, or it was decided. CAPACITY: a booking or a planned edit came to nothing,
    or a GPU is out of order. LIMIT: the time that a job may run is nearly over."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    RETRIED = "retried"
    BUDGET = "budget"
    PRIORITY = "priority"
    CAPACITY = "capacity"
    LIMIT = "limit"


class Via(StrEnum):
    """How a user is told."""

    MAIL = "mail"
    WEBHOOK = "webhook"


class DeliveryState(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


# FAILED -> PENDING: somebody asked for another try. SENT is the end, or a receiver would hear twice.
DELIVERY = lifecycle(
    "delivery",
    DeliveryState,
    {
        DeliveryState.PENDING: {DeliveryState.SENT, DeliveryState.FAILED},
        DeliveryState.FAILED: {DeliveryState.PENDING},
        DeliveryState.SENT: set(),
    },
)

JOB_EVENTS = {
    "job.running": NoticeKind.RUNNING,
    "job.succeeded": NoticeKind.SUCCEEDED,
    "job.failed": NoticeKind.FAILED,
    "job.stopped": NoticeKind.STOPPED,
}
BUDGET_EVENTS = frozenset({"budget.warned", "budget.spent"})
NOTICE_EVENTS = {f"notice.{kind}": kind for kind in (NoticeKind.PRIORITY, NoticeKind.CAPACITY, NoticeKind.LIMIT)}
STARTED_STATES = frozenset({"admitted", "starting", "running", "stopping"})


def notice_kind(event_kind: str, data: Mapping[str, Any]) -> NoticeKind | None:
    """What an event means to a subscriber; None for nothing."""
    if event_kind == "job.queued" and data.get("from") in STARTED_STATES:
        return NoticeKind.RETRIED
    if event_kind in BUDGET_EVENTS:
        return NoticeKind.BUDGET
    return NOTICE_EVENTS.get(event_kind) or JOB_EVENTS.get(event_kind)
