"""The places of waiting jobs when a user puts their own into another order.

A place is a whole second and an id, lower first, as the scheduler compares them. The places that are there are dealt out anew:
the job that comes k-th gets a place no earlier than the k-th was. So any other user's job, wherever it stands, has no more
of the mover's jobs before it than it had. Where an id would come too early for a place, the job stands a second later.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple


class OrderSlot(NamedTuple):
    """Where a job stands. Compared in this order."""

    at: int
    id: uuid.UUID


def rearranged(places: Sequence[OrderSlot], order: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """From when on each job of `order` stands, for those that move. `places` are those of the same jobs."""
    slots = sorted(places)
    assert {slot.id for slot in slots} == set(order), "the same jobs, in another order"
    was = {slot.id: slot.at for slot in slots}
    moved: dict[uuid.UUID, int] = {}
    previous: OrderSlot | None = None
    for slot, job_id in zip(slots, order, strict=True):
        place = OrderSlot(slot.at, job_id)
        if place < slot:
            place = OrderSlot(slot.at + 1, job_id)
        if previous is not None and place <= previous:
            place = OrderSlot(previous.at if job_id > previous.id else previous.at + 1, job_id)
        if place.at != was[job_id]:
            moved[job_id] = place.at
        previous = place
    return moved


def put(
    order: Sequence[uuid.UUID], block: Sequence[uuid.UUID], *, before: uuid.UUID | None, after: uuid.UUID | None
) -> list[uuid.UUID]:
    """The order with a block of it taken out and put before or after a job that is not of it; at the end for neither."""
    taken = set(block)
    rest = [job_id for job_id in order if job_id not in taken]
    if before is not None:
        at = rest.index(before)
    elif after is not None:
        at = rest.index(after) + 1
    else:
        at = len(rest)
    return [*rest[:at], *(job_id for job_id in order if job_id in taken), *rest[at:]]


def inserted(block: Sequence[uuid.UUID], *, before: OrderSlot | None = None, after: OrderSlot | None = None) -> int:
    """The latest second at which a whole block stands before a place, or the earliest after one."""
    if before is not None:
        return before.at if max(block) < before.id else before.at - 1
    assert after is not None
    return after.at if min(block) > after.id else after.at + 1
