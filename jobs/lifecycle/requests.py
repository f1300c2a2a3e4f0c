"""Which state of a request for a higher priority may follow which."""

from __future__ import annotations

from enum import StrEnum

from kernel.lifecycle import lifecycle


class RequestState(StrEnum):
    """What became of a request."""

    PENDING = "pending"  # A user who may decide has not yet.
    APPROVED = "approved"  # For a job: for good. For a person: while the window lasts.
    DENIED = "denied"
    WITHDRAWN = "withdrawn"  # By the requester.
    EXPIRED = "expired"  # Not decided in time, its subject is over, or the window is.
    REVOKED = "revoked"  # A window that was approved, ended before its time.


REQUEST = lifecycle(
    "priority_request",
    RequestState,
    {
        RequestState.PENDING: {RequestState.APPROVED, RequestState.DENIED, RequestState.WITHDRAWN, RequestState.EXPIRED},
        RequestState.APPROVED: {RequestState.EXPIRED, RequestState.REVOKED},
        RequestState.DENIED: set(),
        RequestState.WITHDRAWN: set(),
        RequestState.EXPIRED: set(),
        RequestState.REVOKED: set(),
    },
)
REQUEST_STATES = tuple(str(state) for state in RequestState)
