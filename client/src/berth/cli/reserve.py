"""`berth reserve`: GPUs of a pool for a window, for the jobs of one's own queue."""

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
    state: Annotated[str | None, typer.Option("--state", help="Only held, ended, no_show or cancelled.")] = None,
) -> None:
    """Show bookings of GPUs, newest first."""
    session.show(session.client.bookings.list(state=state), BOOKING_COLUMNS, empty=_("Nothing is booked."))


@command()
def book(
    session: Session,
    gpus: Annotated[str, typer.Argument(metavar="GPUS", help="How many GPUs.")],
    pool: Annotated[str, typer.Option("--pool", help="Of which pool; CLUSTER/POOL where several have the name.")],
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="When it begins; now when left out.")] = None,
    length: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="For how long: 10h, 2d.")] = None,
    end: Annotated[str | None, typer.Option("--until", metavar="TIME", help="When it ends.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="For jobs of this queue; the tenant's own.")] = None,
    comment: Annotated[str, typer.Option("--comment", help="Why, for the record.")] = "",
) -> None:
    """Book GPUs of a pool for a window: nobody else gets them then. Given back when nobody comes in time."""
    if (length is None) == (end is None):
        raise UsageMistake(_("Say how long, by --for or --until."), hint=EXAMPLE)
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
    """Give a booking up. What runs on it goes on as ordinary work."""
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
    "Book GPUs of a pool for a window; show and cancel bookings.",
    {"list": list_bookings, "make": book, "cancel": cancel_booking},
    fallback="make",
)
