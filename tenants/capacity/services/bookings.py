"""Bookings: GPUs of a pool for a queue and a window. Made, cancelled, and let go when the window is over or unused:
no job of the queue has started in it, and none waits for room in its pool.

All bookings are made under the lock of the root queue, as edits of limits are: two of them never both take the last GPUs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from activity.notifications.notices import new_notice
from activity.services import NewEvent, record_audit, record_events
from clusters.notices import CAPACITY
from kernel.actor import Actor, system_actor
from kernel.config import current
from kernel.errors import Conflict, FieldError
from kernel.ids import new_id
from kernel.words import Text, format_amount, format_moment
from reconciling.transition import Change, apply
from tenants.capacity import selectors as queue_selectors
from tenants.capacity.lifecycle import BookingState
from tenants.capacity.models import Booking, Queue, Reservation, ReservationKind
from tenants.capacity.quota.accounting import mark
from tenants.capacity.quota.bookings import Bookings, Clash
from tenants.capacity.quota.limits import Capacity
from tenants.capacity.reads import booked_of, capacities, held_bookings
from tenants.capacity.services.edits import lock_tree
from tenants.capacity.services.transition import BOOKINGS
from tenants.identity.access import demand, role_allows
from tenants.identity.services.names import Problems

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
    """The booking asked for: whole GPUs, in thousandths of a GPU."""

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    gpu_millis: int
    starts_at: datetime
    ends_at: datetime
    comment: str = ""


# By paths of queues: (path of the queue, name of the pool) of jobs there and below that wait for room and nothing else; the name
# is empty where it is not known.
WaitingSource = Callable[[Collection[str]], Collection[tuple[str, str]]]
_waiting: list[WaitingSource] = []


def register_waiting(source: WaitingSource) -> None:
    """Let the jobs say which of them wait for room. Called once, when their app is ready."""
    _waiting[:] = [source]


def book(*, actor: Actor, tenant_id: uuid.UUID, wanted: NewBooking, now: datetime) -> Booking:
    """Book GPUs for a queue of the tenant. Refused where others have booked them, with those bookings: whose they are is told
    only to callers who may see it."""
    demand(actor, tenant_id, "booking.create")
    _check_window(wanted, now)
    with transaction.atomic():
        lock_tree()
        queue = Queue.objects.get(id=wanted.queue_id, tenant_id=tenant_id, deleted_at__isnull=True)
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
        clash = Bookings(booked_of(booking) for booking in held).clash(booked_of(row), pool.total.gpu_millis)
        if clash is not None:
            raise _overlap(actor, clash, held, pool)
        if sum(booking.tenant_id == tenant_id for booking in held) >= PER_TENANT:
            raise Conflict(
                Text(f"A tenant has at most {PER_TENANT} bookings at a time.", f"每个租户同时最多 {PER_TENANT} 个预订。"),
                hint=Text("Cancel some that are not needed.", "请取消不需要的。"),
            )
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
            raise Conflict(
                Text("This booking is over already.", "此预订已结束。"),
                hint=Text("Only one that is held can be cancelled.", "只能取消有效的预订。"),
            )
        booking.refresh_from_db()
        _audit(booking, actor, "booking.cancel", now)
    return booking


def sweep_bookings(now: datetime) -> int:
    """Note which bookings are used, let go of those unused within the grace, and end those that are over. A part of the sweep,
    in a constant number of statements; returns how many bookings changed."""
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
    unused = list(unclaimed.exclude(Exists(came)).select_related("queue")[:BATCH])  # Also who came since they were noted.
    missed = _without_those_waited_for(unused)
    actor = system_actor("quota")
    with transaction.atomic():
        ended = _leave(over, BookingState.ENDED, actor=actor, now=now)
        let_go = _leave(missed, BookingState.NO_SHOW, actor=actor, now=now)
        _tell_let_go([row for row in missed if row.pk in let_go], actor, now)
    return len(claimed) + len(ended) + len(let_go)


def _without_those_waited_for(rows: Sequence[Booking]) -> list[Booking]:
    """A gang that waits until booked GPUs come together has come for them."""
    waiting = {found for source in _waiting for found in source({row.queue.path for row in rows})} if rows else set()
    names = {pool.pool_id: pool.name for pool in capacities()} if waiting else {}
    return [
        row
        for row in rows
        if not any(path.startswith(row.queue.path) and pool in ("", names.get(row.pool_id)) for path, pool in waiting)
    ]


def _leave(rows: Sequence[Booking], state: BookingState, *, actor: Actor, now: datetime) -> frozenset[uuid.UUID]:
    """End bookings that are still held; returns which were. A booking that a job claims just now is no no-show."""
    guard = {"claimed_at": None} if state == BookingState.NO_SHOW else {}
    changes = [Change(row.pk, BookingState.HELD, state, also={"released_at": now}, guard=guard) for row in rows]
    return frozenset(change.id for change in apply(BOOKINGS, changes, actor=actor.name, at=now)) if changes else frozenset()


def _tell_let_go(rows: Sequence[Booking], actor: Actor, now: datetime) -> None:
    """Tell the booker that no job came, and that the GPUs are free for all again."""
    names = {pool.pool_id: pool.name for pool in capacities()} if rows else {}
    record_events(
        [
            new_notice(
                CAPACITY,
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
        message = Text(
            f"{wanted.gpu_millis} thousandths are no whole number of GPUs.",
            f"{wanted.gpu_millis} 不是整数块 GPU（以千分之一计）。",
        )
        problems.add("/gpu_millis", "invalid", message, Text("Book whole GPUs: 1000 for each.", "请预订整块 GPU：每块为 1000。"))
    if wanted.starts_at < now - LATE:
        message = Text(
            f"{format_moment(wanted.starts_at)} is over: it is {format_moment(now)}.",
            f"{format_moment(wanted.starts_at)} 已过：现在是 {format_moment(now)}。",
        )
        problems.add("/starts_at", "in_the_past", message, Text("Book from now on, or later.", "请从现在或更晚开始预订。"))
    elif wanted.starts_at > now + AHEAD:
        message = Text(f"A booking begins at most {AHEAD.days} days ahead.", f"预订最多可提前 {AHEAD.days} 天。")
        problems.add(
            "/starts_at",
            "out_of_range",
            message,
            Text(f"Begin before {now + AHEAD:%Y-%m-%d}.", f"请在 {now + AHEAD:%Y-%m-%d} 之前开始。"),
        )
    if wanted.ends_at <= max(wanted.starts_at, now):
        problems.add(
            "/ends_at",
            "out_of_range",
            Text("The window ends before it begins.", "时段的结束早于开始。"),
            Text("Give an end after the start, and after now.", "请给出晚于开始且晚于现在的结束时间。"),
        )
    elif wanted.ends_at - wanted.starts_at > LENGTH_MAX:
        message = Text(f"A booking lasts at most {LENGTH_MAX.days} days.", f"预订最长 {LENGTH_MAX.days} 天。")
        problems.add(
            "/ends_at",
            "out_of_range",
            message,
            Text(
                f"End by {format_moment(wanted.starts_at + LENGTH_MAX)}.",
                f"请在 {format_moment(wanted.starts_at + LENGTH_MAX)} 之前结束。",
            ),
        )
    problems.raise_if_any()


def _check_size(wanted: NewBooking) -> Capacity:
    """The pool, which must have so many GPUs at all, and whose share of them the queue must be allowed to use."""
    problems = Problems()
    pool = next((capacity for capacity in capacities() if capacity.pool_id == wanted.pool_id), None)
    if pool is None:
        problems.add(
            "/pool",
            "not_found",
            Text("There is no such pool.", "没有这个资源池。"),
            Text("`berth pools` lists them.", "`berth pools` 可列出。"),
        )
        problems.raise_if_any()
        raise AssertionError("unreachable")
    if wanted.gpu_millis > pool.total.gpu_millis:
        asked, total = wanted.gpu_millis, pool.total.gpu_millis
        message = Text(
            f"{_gpus(asked)} are more than the {_gpus(total)} that pool {pool.name} has in all.",
            f"{_gpus_zh(asked)}超过资源池 {pool.name} 的总数 {_gpus_zh(total)}。",
        )
        hint = Text(f"Book at most {_gpus(total)}.", f"最多预订 {_gpus_zh(total)}。")
        problems.add("/gpu_millis", "larger_than_pool", message, hint)
    for node in queue_selectors.queue_path(wanted.queue_id):
        ceiling = node.ceiling(wanted.pool_id).gpu_millis
        if ceiling is not None and wanted.gpu_millis > ceiling:
            message = Text(
                f"{_gpus(wanted.gpu_millis)} are more than the {_gpus(ceiling)} that the queue may use of pool {pool.name}.",
                f"{_gpus_zh(wanted.gpu_millis)}超过队列在资源池 {pool.name} 的上限 {_gpus_zh(ceiling)}。",
            )
            hint = Text(
                f"Book at most {_gpus(ceiling)}, or have the limit raised first.",
                f"最多预订 {_gpus_zh(ceiling)}，或先提高上限。",
            )
            problems.add("/gpu_millis", "above_ceiling", message, hint)
            break
    problems.raise_if_any()
    return pool


def _overlap(actor: Actor, clash: Clash, held: Sequence[Booking], pool: Capacity) -> Conflict:
    """The refusal with the bookings that stand in the way. Whose they are, only where the actor sees their tenant."""
    rows = {row.pk: row for row in held}
    others = sorted((rows[booking.id] for booking in clash.others), key=lambda row: (row.starts_at, row.pk))
    fields = [
        FieldError("/starts_at", "overlaps", _told(row, names_tenant=role_allows(actor, row.tenant_id, "booking.read")))
        for row in others[:SHOWN_OTHERS]
    ]
    ends = min((row.ends_at for row in others), default=None)
    less = Text(f"book at most {_gpus(clash.free)}", f"最多预订 {_gpus_zh(clash.free)}")
    hints = [less] if clash.free >= GPU else []
    if ends is not None:
        begin = format_moment(ends + ROUNDED_UP)
        hints.append(Text(f"begin at {begin} or later", f"从 {begin} 或更晚开始"))
    en, zh = ", or ".join(hint.en for hint in hints), "，或".join(hint.zh for hint in hints)
    return Conflict(
        Text(
            f"{_gpus(clash.booked)} of the {_gpus(clash.capacity)} in pool {pool.name} are booked then: "
            f"{_gpus(clash.need)} more do not fit.",
            f"届时资源池 {pool.name} 的 {_gpus_zh(clash.capacity)}中已预订 {_gpus_zh(clash.booked)}，"
            f"不能再预订 {_gpus_zh(clash.need)}。",
        ),
        hint=Text(f"{en[:1].upper()}{en[1:]}.", f"请{zh}。") if hints else "",
        fields=fields,
    )


def _told(booking: Booking, *, names_tenant: bool) -> Text[str]:
    """One booking that stands in the way."""
    window = (format_moment(booking.starts_at), format_moment(booking.ends_at))
    by, by_zh = (f" by {booking.tenant.name}", f"租户 {booking.tenant.name} ") if names_tenant else ("", "")
    return Text(
        f"{_gpus(booking.gpu_millis)} are booked from {window[0]} to {window[1]}{by}.",
        f"{window[0]} 至 {window[1]} {by_zh}已预订 {_gpus_zh(booking.gpu_millis)}。",
    )


def _gpus_zh(millis: int) -> str:
    return format_amount("gpu_millis", millis, "zh")


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
