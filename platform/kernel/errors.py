"""The shape of every expected failure: a stable code, words for a person, and what to do next.

Unexpected failures are ordinary exceptions and are not caught here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernel.words import Language, Saying, Text, as_text


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong at one place of the input. `path` is a JSON pointer (`/roles/worker/replicas`); `line` counts from 1."""

    path: str
    code: str
    message: Saying
    hint: Saying = ""
    line: int | None = None

    def as_dict(self, language: str = Language.ENGLISH) -> dict[str, str | int]:
        """As it leaves in an answer, in the language of its reader."""
        entry: dict[str, str | int] = {
            "path": self.path, "code": self.code, "message": as_text(self.message).in_language(language)
        }  # fmt: skip
        if hint := as_text(self.hint).in_language(language):
            entry["hint"] = hint
        if self.line is not None:
            entry["line"] = self.line
        return entry


class BerthError(Exception):
    """An expected failure. Subclasses fix `code`, `status` (HTTP), `title` and `retryable`; instances say what happened and to
    what. `detail` and `hint` are the English words, for logs; answers take `detail_text` and `hint_text`."""

    code = "error"
    status = 400
    title: ClassVar[Text[str]] = Text("The request could not be carried out", "请求无法完成")
    retryable = False

    def __init__(
        self,
        detail: Saying,
        *,
        hint: Saying = "",
        fields: Sequence[FieldError] = (),
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(str(detail))
        self.detail_text = as_text(detail)
        self.hint_text = as_text(hint)
        self.fields = tuple(fields)
        self.retry_after_seconds = retry_after_seconds

    @property
    def detail(self) -> str:
        return self.detail_text.en

    @property
    def hint(self) -> str:
        return self.hint_text.en


class InvalidInput(BerthError):
    """The input is not valid; `fields` lists every violation."""

    code = "invalid_input"
    status = 422
    title = Text("The input is not valid", "输入无效")


class NotAuthenticated(BerthError):
    """The request carries no credential, or one that is unknown, expired or revoked."""

    code = "not_authenticated"
    status = 401
    title = Text("Sign in first", "请先登录")


class Forbidden(BerthError):
    """The actor sees the object, but its role does not allow this verb."""

    code = "forbidden"
    status = 403
    title = Text("Your role does not allow this", "您的角色无权执行此操作")


class NotFound(BerthError):
    """The object does not exist, or the actor may not know that it does."""

    code = "not_found"
    status = 404
    title = Text("There is no such object", "没有这个对象")


class Conflict(BerthError):
    """The state of the object does not allow the operation."""

    code = "conflict"
    status = 409
    title = Text("The object is in another state", "对象处于另一状态")


class PreconditionFailed(BerthError):
    """If-Match names a version that is no longer the newest."""

    code = "precondition_failed"
    status = 412
    title = Text("The object was changed meanwhile", "对象已被他人修改")


class PlanChanged(BerthError):
    """The plan no longer matches the present state; `plan` holds the present plan."""

    code = "plan_changed"
    status = 412
    title = Text("The plan is out of date", "计划已过期")

    def __init__(self, detail: Saying, *, hint: Saying = "", plan: Mapping[str, Any]) -> None:
        super().__init__(detail, hint=hint)
        self.plan = plan


class TooLarge(BerthError):
    """The body, or a part of it, is larger than the limit."""

    code = "too_large"
    status = 413
    title = Text("The request is too large", "请求过大")


class QuotaExceeded(BerthError):
    """The request goes beyond a limit that can never be met by waiting."""

    code = "quota_exceeded"
    status = 422
    title = Text("A limit refuses this", "超出限额")


class TooManyRequests(BerthError):
    """The token, or the address without a token, exceeded its rate limit."""

    code = "too_many_requests"
    status = 429
    title = Text("Too many requests", "请求过于频繁")
    retryable = True


class Unavailable(BerthError):
    """A required service does not answer; the same request may succeed later."""

    code = "unavailable"
    status = 503
    title = Text("Not available at the moment", "暂时不可用")
    retryable = True


class StorageFull(BerthError):
    """The disk or a quota of bytes has no room for the upload."""

    code = "storage_full"
    status = 507
    title = Text("There is no room left", "存储空间不足")
