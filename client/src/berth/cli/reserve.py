"""`berth reserve`: GPUs of a pool for a window, for the jobs of a queue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command, make_group
from berth.cli.messages import _
from berth.cli.output import Column, hint
from berth.sanitize import plain

EXAMPLE = "berth reserve 8 --pool a100 --from 2027-01-31T20:00 --for 10h"


@command()
def list_bookings(
    session: Session,
    state: Annotated[
        str | None, typer.Option("--state", help="Only bookings in this state: held, ended, no_show or cancelled.")
    ] = None,
) -> None:
    """Show bookings of GPUs, newest first."""
    session.show(session.client.bookings.list(state=state), BOOKING_COLUMNS, empty=_("Nothing is booked."))


@command()
def book(
    session: Session,
    gpus: Annotated[str, typer.Argument(metavar="GPUS", help="Number of GPUs.")],
    pool: Annotated[str, typer.Option("--pool", help="Pool; CLUSTER/POOL where several have the name.")],
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Start of the window; default: now.")] = None,
    length: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="Duration: 10h, 2d.")] = None,
    end: Annotated[str | None, typer.Option("--until", metavar="TIME", help="End of the window.")] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", help="Queue that may use the booking; default: the tenant's top queue.")
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="Reason, for the record.")] = "",
) -> None:
    """Make an advance reservation: book GPUs of a pool for a time window. A booking that no job uses in time is released."""
    if (length is None) == (end is None):
        raise UsageMistake(_("Give the duration with --for, or the end with --until."), hint=EXAMPLE)
    begins = datetime.now(UTC) if start is None else formats.parse_when(start)
    ends = formats.parse_when(end) if end is not None else begins + timedelta(seconds=formats.parse_seconds(length or ""))
    booking = session.client.bookings.create(
        pool, formats.parse_millis(gpus), starts_at=_iso(begins), ends_at=_iso(ends), queue=queue, comment=comment
    )
    text = _(
        "Booked: {gpus} GPU of {pool}, from {start} to {end}.",
        gpus=formats.millis_text(booking["gpu_millis"]),
        pool=plain((booking["pool"] or {}).get("name", pool)),
        start=formats.time_text(booking["starts_at"]),
        end=formats.time_text(booking["ends_at"]),
    )
    session.show_done(booking, text)
    hint(
        _("berth submit -q {queue} ...   ·   berth reserve cancel {id}", queue=plain(booking["queue"]["name"]), id=booking["id"])
    )


@command()
def cancel_booking(
    session: Session, booking: Annotated[str, typer.Argument(metavar="BOOKING", help="Id of the booking.")]
) -> None:
    """Cancel a booking. Jobs that run on it continue as ordinary jobs."""
    session.show_done(session.client.bookings.cancel(booking), _("The booking is cancelled."))


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


BOOKING_COLUMNS = [
    Column("BOOKING", lambda booking: booking["id"]),
    Column("STATE", lambda booking: _(booking["state"].replace("_", " "))),
    Column("GPUS", lambda booking: formats.millis_text(booking["gpu_millis"]), right=True),
    Column("POOL", lambda booking: plain((booking["pool"] or {}).get("name", "?"))),
    Column("FROM", lambda booking: formats.time_text(booking["starts_at"])),
    Column("UNTIL", lambda booking: formats.time_text(booking["ends_at"])),
    Column("QUEUE", lambda booking: plain(booking["queue"]["name"]), shrinks=True),
    Column("BY", lambda booking: formats.name_of(booking.get("created_by"))),
]
reserve = make_group(
    "reserve",
    list_bookings,
    "Book GPUs of a pool for a time window; show and cancel bookings.",
    {"list": list_bookings, "make": book, "cancel": cancel_booking},
    fallback="make",
)
