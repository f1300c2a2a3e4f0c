"""Everything that can go wrong, as classes with a stable `code`, words for a person, and a hint what to do next.

The server answers refusals as `application/problem+json` (RFC 9457); `from_problem` picks the class by the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong at one place of the input. `path` is a JSON pointer such as `/roles/worker/replicas`.

    `line` and `file` say where that is in the file that the spec came from, where that is known.
    """

    path: str
    message: str
    code: str = "invalid"
    hint: str = ""
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """`job.yaml:7`, or the pointer when the line is not known."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.path or "/"


class BerthError(Exception):
    """An expected failure. `exit_code` is what the command line ends with."""

    code = "error"
    exit_code = 1

    def __init__(self, detail: str, *, hint: str = "", fields: Sequence[FieldProblem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.fields = tuple(fields)


# --- Found by the client itself --------------------------------------------------------------------------------------


class ConfigurationInvalid(BerthError):
    """The configuration file or the environment does not say which server to talk to, or says it wrongly."""

    code = "configuration_invalid"
    exit_code = 2


class SpecInvalid(BerthError):
    """A job file cannot be read, or breaks the rules; `fields` holds every break with its line."""

    code = "spec_invalid"
    exit_code = 2


class Ambiguous(BerthError):
    """A name that several things have."""

    code = "ambiguous"
    exit_code = 2


class ServerUnreachable(BerthError):
    """No answer, after all retries."""

    code = "server_unreachable"


class AnswerInvalid(BerthError):
    """The server answered something that is not Berth's, or too much of it."""

    code = "answer_invalid"


class WaitTimeout(BerthError):
    """The job had not ended when the time was over; it goes on."""

    code = "wait_timeout"
    exit_code = 124


class ChecksumMismatch(BerthError):
    """What arrived is not what the manifest promises; the file was not put in place."""

    code = "checksum_mismatch"


class FileRefused(BerthError):
    """A file cannot be sent or written: too large, of a special kind, or its name leads out of the folder."""

    code = "file_refused"


class TextUnreadable(FileRefused):
    """A text file that was named cannot be read: it is not there, or in another encoding than UTF-8 and UTF-16."""

    exit_code = 2


class ExtraMissing(BerthError):
    """What was asked for needs a package that comes with an extra of `berth` and is not installed."""

    code = "extra_missing"


# --- Said by the server ----------------------------------------------------------------------------------------------


class ApiError(BerthError):
    """The server refused. `status` is HTTP's; `request_id` finds the request in the server's log."""

    code = "api_error"
    status = 400

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        fields: Sequence[FieldProblem] = (),
        code: str = "",
        status: int = 0,
        title: str = "",
        request_id: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(detail, hint=hint, fields=fields)
        self.code = code or type(self).code
        self.status = status or type(self).status
        self.title = title
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds


class NotAuthenticated(ApiError):
    code, status, exit_code = "not_authenticated", 401, 3


class Forbidden(ApiError):
    code, status, exit_code = "forbidden", 403, 3


class NotFound(ApiError):
    code, status, exit_code = "not_found", 404, 4


class Conflict(ApiError):
    code, status = "conflict", 409


class PreconditionFailed(ApiError):
    code, status = "precondition_failed", 412


class PlanChanged(ApiError):
    """What was planned is not what would be done any more."""

    code, status = "plan_changed", 412


class TooLarge(ApiError):
    code, status = "too_large", 413


class InvalidInput(ApiError):
    code, status, exit_code = "invalid_input", 422, 2


class QuotaExceeded(ApiError):
    code, status, exit_code = "quota_exceeded", 422, 5


class TooManyRequests(ApiError):
    code, status = "too_many_requests", 429


class Unavailable(ApiError):
    code, status = "unavailable", 503


class StorageFull(ApiError):
    code, status, exit_code = "storage_full", 507, 5


_CLASSES: tuple[type[ApiError], ...] = (
    NotAuthenticated,
    Forbidden,
    NotFound,
    Conflict,
    PreconditionFailed,
    PlanChanged,
    TooLarge,
    InvalidInput,
    QuotaExceeded,
    TooManyRequests,
    Unavailable,
    StorageFull,
)
_BY_CODE = {kind.code: kind for kind in _CLASSES}
_BY_STATUS = {kind.status: kind for kind in _CLASSES if kind not in (QuotaExceeded, PlanChanged)} | {
    400: InvalidInput,
    502: Unavailable,
    504: Unavailable,
}


def from_problem(status: int, body: object, *, request_id: str = "", retry_after_seconds: float | None = None) -> ApiError:
    """Build the error that a refusal stands for; a body that is no problem document still gives a plain sentence."""
    problem: Mapping[str, object] = body if isinstance(body, Mapping) else {}
    code = str(problem.get("code") or "")
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status) or ApiError
    title = str(problem.get("title") or "")
    return kind(
        str(problem.get("detail") or title or f"The server answered {status} without saying why."),
        hint=str(problem.get("hint") or ""),
        fields=_fields(problem.get("fields")),
        code=code,
        status=status,
        title=title,
        request_id=str(problem.get("request_id") or request_id),
        retry_after_seconds=retry_after_seconds,
    )


def _fields(entries: object) -> tuple[FieldProblem, ...]:
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return ()
    return tuple(
        FieldProblem(
            path=str(entry.get("path") or ""),
            message=str(entry.get("message") or ""),
            code=str(entry.get("code") or "invalid"),
            hint=str(entry.get("hint") or ""),
            line=entry["line"] if isinstance(entry.get("line"), int) else 0,
        )
        for entry in entries
        if isinstance(entry, Mapping)
    )
