"""The shape of every expected failure: a stable code, words for a person, and what to do next.

Unexpected failures are ordinary exceptions and are not caught here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong at one place of the input. `path` is a JSON pointer (`/roles/worker/replicas`); `line` counts from 1."""

    path: str
    code: str
    message: str
    hint: str = ""
    line: int | None = None

    def as_dict(self) -> dict[str, str | int]:
        entry: dict[str, str | int] = {"path": self.path, "code": self.code, "message": self.message}
        if self.hint:
            entry["hint"] = self.hint
        if self.line is not None:
            entry["line"] = self.line
        return entry


class BerthError(Exception):
    """An expected failure. Subclasses fix `code`, `status` (HTTP) and `retryable`; instances say what happened and to what."""

    code = "error"
    status = 400
    title = "The request could not be carried out"
    retryable = False

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        fields: Sequence[FieldError] = (),
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.fields = tuple(fields)
        self.retry_after_seconds = retry_after_seconds


class InvalidInput(BerthError):
    """The input breaks rules; `fields` holds every break, not the first only."""

    code = "invalid_input"
    status = 422
    title = "The input is not valid"


class NotAuthenticated(BerthError):
    """The request carries no credential, or one that is unknown, expired or revoked."""

    code = "not_authenticated"
    status = 401
    title = "Sign in first"


class Forbidden(BerthError):
    """The actor sees the object, but its role does not allow this verb."""

    code = "forbidden"
    status = 403
    title = "Your role does not allow this"


class NotFound(BerthError):
    """The object does not exist, or the actor may not know that it does."""

    code = "not_found"
    status = 404
    title = "There is no such object"


class Conflict(BerthError):
    """The object is not in a state in which this can be done."""

    code = "conflict"
    status = 409
    title = "The object is in another state"


class PreconditionFailed(BerthError):
    """If-Match names a version that is no longer the newest."""

    code = "precondition_failed"
    status = 412
    title = "Somebody changed the object meanwhile"


class PlanChanged(BerthError):
    """What was planned is not what would be done any more; `plan` is what would be."""

    code = "plan_changed"
    status = 412
    title = "The plan is out of date"

    def __init__(self, detail: str, *, hint: str = "", plan: Mapping[str, Any]) -> None:
        super().__init__(detail, hint=hint)
        self.plan = plan


class TooLarge(BerthError):
    """The body, or a part of it, is larger than Berth reads."""

    code = "too_large"
    status = 413
    title = "The request is too large"


class QuotaExceeded(BerthError):
    """The request goes beyond a limit that can never be met by waiting."""

    code = "quota_exceeded"
    status = 422
    title = "A limit refuses this"


class TooManyRequests(BerthError):
    """A token, or an address without one, sent more requests than it may."""

    code = "too_many_requests"
    status = 429
    title = "Too many requests"
    retryable = True


class Unavailable(BerthError):
    """A part that Berth needs does not answer now; the same request may succeed later."""

    code = "unavailable"
    status = 503
    title = "Not available at the moment"
    retryable = True


class StorageFull(BerthError):
    """The disk or a quota of bytes has no room for what was sent."""

    code = "storage_full"
    status = 507
    title = "There is no room left"
