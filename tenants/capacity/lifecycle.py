"""Which state of an edit of limits, of a request for one, and of a booking, may follow which. An end is final."""

from __future__ import annotations

from enum import StrEnum

from kernel.lifecycle import lifecycle


class EditState(StrEnum):
    """What became of an edit."""

    PENDING = "pending"  # Its time is still to come: it can be cancelled.
    APPLIED = "applied"
    CANCELLED = "cancelled"
    REFUSED = "refused"  # It broke the tree when its time came, or its author had lost the right; `problems` says which.


class RequestState(StrEnum):
    """What became of a request for other limits."""

    PENDING = "pending"
    APPROVED = "approved"  # The edit was made, or waits for its time.
    DENIED = "denied"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"  # Not decided in time.


class BookingState(StrEnum):
    """What became of a booking."""

    HELD = "held"  # It holds GPUs, now or in its window.
    ENDED = "ended"  # Its window is over.
    NO_SHOW = "no_show"  # No job came within the grace.
    CANCELLED = "cancelled"


EDIT = lifecycle(
    "quota_edit",
    EditState,
    {
        EditState.PENDING: {EditState.APPLIED, EditState.CANCELLED, EditState.REFUSED},
        EditState.APPLIED: set(),
        EditState.CANCELLED: set(),
        EditState.REFUSED: set(),
    },
)
REQUEST = lifecycle(
    "quota_request",
    RequestState,
    {
        RequestState.PENDING: {
            RequestState.APPROVED, RequestState.DENIED, RequestState.WITHDRAWN, RequestState.EXPIRED,
        },
        RequestState.APPROVED: set(),
        RequestState.DENIED: set(),
        RequestState.WITHDRAWN: set(),
        RequestState.EXPIRED: set(),
    },
)  # fmt: skip
BOOKING = lifecycle(
    "booking",
    BookingState,
    {
        BookingState.HELD: {BookingState.ENDED, BookingState.NO_SHOW, BookingState.CANCELLED},
        BookingState.ENDED: set(),
        BookingState.NO_SHOW: set(),
        BookingState.CANCELLED: set(),
    },
)
EDIT_STATES = tuple(str(state) for state in EditState)
REQUEST_STATES = tuple(str(state) for state in RequestState)
BOOKING_STATES = tuple(str(state) for state in BookingState)
