"""Bookings: GPUs of a pool for a queue and a window. Made, cancelled, and let go when the window is over or nobody came.

All bookings are made under the lock of the root queue, as edits of limits are: two of them never both take the last GPUs.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from activity.notifications.kinds import NoticeKind
from activity.notifications.notices import new_notice
from activity.services import NewEvent, record_audit, record_events
from kernel.actor import Actor, system_actor
from kernel.config import current
from kernel.errors import Conflict, FieldError
from kernel.ids import new_id
from kernel.words import format_moment
from reconciling.transition import Change, apply
from tenants import selectors
from tenants.access import demand, role_allows
from tenants.capacity import booked_of, capacities, held_bookings
from tenants.lifecycle import BookingState
from tenants.models import Booking, Queue, Reservation, ReservationKind
from tenants.quota.accounting import mark
from tenants.quota.bookings import Bookings, Clash
from tenants.quota.limits import Capacity
from tenants.services.edits import lock_tree
from tenants.services.names import Problems
from tenants.services.transition import BOOKINGS

GPU = 1000
AHEAD = timedelta(days=366)
LENGTH_MIN = timedelta(minutes=1)
LENGTH_MAX = timedelta(days=92)
ROUNDED_UP = timedelta(seconds=59, microseconds=999_999)  # Sentences hold whole minutes.
LATE = timedelta(minutes=1)  # Clocks of people and servers differ, and forms are filled in slowly.
PER_TENANT = 1_000
SHOWN_OTHERS = 50
BATCH = 1_000


@dataclass(frozen=True, slots=True)
class NewBooking:
    """What somebody asks for: whole GPUs, in thousandths of one."""

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    gpu_millis: int
    starts_at: datetime
    ends_at: datetime
    comment: str = ""


def book(*, actor: Actor, tenant_id: uuid.UUID, wanted: NewBooking, now: datetime) -> Booking:
    """Book GPUs for a queue of the tenant. Refused where others have booked them, with those bookings: whose they are is told
    only to whoever may see it."""
    demand(actor, tenant_id, "booking.create")
    _check_window(wanted, now)
    with transaction.atomic():
        lock_tree()
        queue = Queue.objects.get(id=wanted.queue_id, tenant_id=tenant_id)
        pool = _check_size(wanted)
        held = held_bookings(now)
        row = Booking(
            id=new_id(),
            tenant_id=tenant_id,
            queue=queue,
            pool_id=wanted.pool_id,
            gpu_millis=wanted.gpu_millis,
            starts_at=max(wanted.starts_at, now).replace(microsecond=0),
            ends_at=wanted.ends_at.replace(microsecond=0),
            state=BookingState.HELD,
            comment=wanted.comment,
            created_at=now,
            created_by_id=actor.user_id,
        )
        clash = Bookings(booked_of(one) for one in held).clash(booked_of(row), pool.total.gpu_millis)
        if clash is not None:
            raise _overlap(actor, clash, held, pool)
        if sum(one.tenant_id == tenant_id for one in held) >= PER_TENANT:
            raise Conflict(f"A tenant has at most {PER_TENANT} bookings at a time.", hint="Cancel some that are not needed.")
        row.save(force_insert=True)
        record_events([_made(row, now)])
        _audit(row, actor, "booking.create", now)
    return row


def cancel_booking(*, actor: Actor, booking: Booking, now: datetime) -> Booking:
    """Give a booking up; what runs on it goes on as ordinary work."""
    demand(actor, booking.tenant_id, "booking.cancel", booking.created_by_id)
    with transaction.atomic():
        is_over = booking.state != BookingState.HELD or booking.ends_at <= now
        if is_over or not _leave([booking], BookingState.CANCELLED, actor=actor, now=now):
            raise Conflict("This booking is over already.", hint="Only one that is held can be cancelled.")
        booking.refresh_from_db()
        _audit(booking, actor, "booking.cancel", now)
    return booking


def sweep_bookings(now: datetime) -> int:
    """Note who came, let go of what nobody came for within the grace, and end what is over. A part of the sweep, in a constant
    number of statements; returns how many bookings changed."""
    came = Reservation.objects.filter(
        Q(released_at__isnull=True) | Q(created_at__gte=OuterRef("starts_at")),  # What just ended as it began is not for it.
        kind=ReservationKind.ATTEMPT,
        gpu_millis__gt=0,
        pool_id=OuterRef("pool_id"),
        queue__path__startswith=OuterRef("queue__path"),
        created_at__lt=OuterRef("ends_at"),
    )
    begun = Booking.objects.filter(state=BookingState.HELD, starts_at__lte=now)
    claimed = list(begun.filter(claimed_at__isnull=True).filter(Exists(came)).values_list("id", flat=True)[:BATCH])
    Booking.objects.filter(id__in=claimed, claimed_at__isnull=True).update(claimed_at=now)
    over = list(begun.filter(ends_at__lte=now)[:BATCH])
    grace = timedelta(seconds=current().booking_grace_seconds)
    unclaimed = begun.filter(claimed_at__isnull=True, starts_at__lte=now - grace, ends_at__gt=now)
    missed = list(unclaimed.exclude(Exists(came)).select_related("queue")[:BATCH])  # Also who came since they were noted.
    actor = system_actor("quota")
    with transaction.atomic():
        ended = _leave(over, BookingState.ENDED, actor=actor, now=now)
        let_go = _leave(missed, BookingState.NO_SHOW, actor=actor, now=now)
        _tell_let_go([row for row in missed if row.pk in let_go], actor, now)
    return len(claimed) + len(ended) + len(let_go)


def _leave(rows: Sequence[Booking], state: BookingState, *, actor: Actor, now: datetime) -> frozenset[uuid.UUID]:
    """End bookings that are still held; returns which were. One that somebody came for in this moment is no more missed."""
    guard = {"claimed_at": None} if state == BookingState.NO_SHOW else {}
    changes = [Change(row.pk, BookingState.HELD, state, also={"released_at": now}, guard=guard) for row in rows]
    return frozenset(change.id for change in apply(BOOKINGS, changes, actor=actor.name, at=now)) if changes else frozenset()


def _tell_let_go(rows: Sequence[Booking], actor: Actor, now: datetime) -> None:
    """Whoever booked is told that nobody came, and that the GPUs are anybody's again."""
    names = {pool.pool_id: pool.name for pool in capacities()} if rows else {}
    record_events(
        [
            new_notice(
                NoticeKind.CAPACITY,
                tenant_id=row.tenant_id,
                subject_kind="booking",
                subject_id=row.pk,
                title=f"Nobody used the booking of {_gpus(row.gpu_millis)} in pool {names.get(row.pool_id, '?')}: it is released",
                text=(
                    f"Queue {row.queue.name} had it from {format_moment(row.starts_at)} to {format_moment(row.ends_at)} "
                    f"and started nothing within {current().booking_grace_seconds:g} seconds. Others may use the GPUs again."
                ),
                command="berth reserve list",
                users=[row.created_by_id],
                at=now,
            )
            for row in rows
        ]
    )
    for row in rows:
        row.state, row.released_at = BookingState.NO_SHOW, now
        _audit(row, actor, "booking.release", now)


def _check_window(wanted: NewBooking, now: datetime) -> None:
    problems = Problems()
    if wanted.gpu_millis < GPU or wanted.gpu_millis % GPU:
        message = f"{wanted.gpu_millis} thousandths are no whole number of GPUs."
        problems.add("/gpu_millis", "invalid", message, "Book whole GPUs: 1000 for each.")
    if wanted.starts_at < now - LATE:
        message = f"{format_moment(wanted.starts_at)} is over: it is {format_moment(now)}."
        problems.add("/starts_at", "in_the_past", message, "Book from now on, or later.")
    elif wanted.starts_at > now + AHEAD:
        message = f"A booking begins at most {AHEAD.days} days ahead."
        problems.add("/starts_at", "out_of_range", message, f"Begin before {now + AHEAD:%Y-%m-%d}.")
    if wanted.ends_at <= max(wanted.starts_at, now):
        problems.add(
            "/ends_at", "out_of_range", "The window ends before it begins.", "Give an end after the start, and after now."
        )
    elif wanted.ends_at - wanted.starts_at > LENGTH_MAX:
        message = f"A booking lasts at most {LENGTH_MAX.days} days."
        problems.add("/ends_at", "out_of_range", message, f"End by {format_moment(wanted.starts_at + LENGTH_MAX)}.")
    problems.raise_if_any()


def _check_size(wanted: NewBooking) -> Capacity:
    """The pool, which must have so many GPUs at all, and whose share of them the queue must be allowed to use."""
    problems = Problems()
    pool = next((one for one in capacities() if one.pool_id == wanted.pool_id), None)
    if pool is None:
        problems.add("/pool", "not_found", "There is no such pool.", "`berth pools` lists them.")
        problems.raise_if_any()
        raise AssertionError("unreachable")
    if wanted.gpu_millis > pool.total.gpu_millis:
        message = f"{_gpus(wanted.gpu_millis)} are more than the {_gpus(pool.total.gpu_millis)} that pool {pool.name} has in all."
        problems.add("/gpu_millis", "larger_than_pool", message, f"Book at most {pool.total.gpu_millis}.")
    for node in selectors.queue_path(wanted.queue_id):
        ceiling = node.ceiling(wanted.pool_id).gpu_millis
        if ceiling is not None and wanted.gpu_millis > ceiling:
            message = f"{_gpus(wanted.gpu_millis)} are more than the {_gpus(ceiling)} that the queue may use of pool {pool.name}."
            problems.add("/gpu_millis", "above_ceiling", message, f"Book at most {ceiling}, or have the limit raised first.")
            break
    problems.raise_if_any()
    return pool


def _overlap(actor: Actor, clash: Clash, held: Sequence[Booking], pool: Capacity) -> Conflict:
    """The refusal with the bookings that stand in the way. Whose they are, only where the actor sees their tenant."""
    rows = {row.pk: row for row in held}
    others = sorted((rows[one.id] for one in clash.others), key=lambda row: (row.starts_at, row.pk))
    fields = [
        FieldError(
            "/starts_at",
            "overlaps",
            f"{_gpus(row.gpu_millis)} are booked from {format_moment(row.starts_at)} to {format_moment(row.ends_at)}"
            + (f" by {row.tenant.name}." if role_allows(actor, row.tenant_id, "booking.read") else "."),
        )
        for row in others[:SHOWN_OTHERS]
    ]
    ends = min((row.ends_at for row in others), default=None)
    hints = [f"Book at most {_gpus(clash.free)}"] if clash.free >= GPU else []
    hints += [f"begin at {format_moment(ends + ROUNDED_UP)} or later"] if ends is not None else []
    return Conflict(
        f"{_gpus(clash.booked)} of the {_gpus(clash.capacity)} in pool {pool.name} are booked then: "
        f"{_gpus(clash.need)} more do not fit.",
        hint=f"{', or '.join(hints)[:1].upper()}{', or '.join(hints)[1:]}." if hints else "",
        fields=fields,
    )


def _gpus(millis: int) -> str:
    count = f"{millis // GPU}" if millis % GPU == 0 else f"{millis / GPU:g}"
    return f"{count} GPU" if count == "1" else f"{count} GPUs"


def _audit(booking: Booking, actor: Actor, verb: str, now: datetime) -> None:
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=booking.tenant_id,
        target_kind="booking",
        target_id=booking.pk,
        target_name=booking.queue.name,
        after={
            "pool": str(booking.pool_id),
            "gpu_millis": booking.gpu_millis,
            "starts_at": booking.starts_at.isoformat(),
            "ends_at": booking.ends_at.isoformat(),
            "state": str(booking.state),
        },
        at=now,
    )


def _made(booking: Booking, now: datetime) -> NewEvent:
    return NewEvent(
        kind="booking.made",
        tenant_id=booking.tenant_id,
        subject_kind="booking",
        subject_id=booking.pk,
        data={"name": booking.queue.name, "gpu_millis": booking.gpu_millis, "starts_at": mark(booking.starts_at)},
        at=now,
    )
