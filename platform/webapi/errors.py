"""Failures of the HTTP layer itself: what a request can get wrong before any domain code has seen it."""

from __future__ import annotations

from kernel.errors import BerthError
from kernel.words import Text


class MalformedBody(BerthError):
    """The body is not the JSON (or other format) that its content type says; line and column are in the detail."""

    code = "malformed_body"
    status = 400
    title = Text("The body cannot be read", "请求体无法读取")


class BadRequest(BerthError):
    """The request breaks rules of HTTP itself: a broken header, host name or encoding."""

    code = "bad_request"
    status = 400
    title = Text("The request cannot be understood", "无法理解该请求")


class InvalidCursor(BerthError):
    """The cursor was not made by this list: it was changed, cut off, or comes from another list."""

    code = "invalid_cursor"
    status = 400
    title = Text("The cursor is not valid", "游标无效")


class FeatureOff(BerthError):
    """The feature that this operation is a part of is switched off for the installation, or for the tenant."""

    code = "feature_off"
    status = 404
    title = Text("This feature is switched off", "此功能已关闭")


class RouteNotFound(BerthError):
    """No operation has this path."""

    code = "route_not_found"
    status = 404
    title = Text("There is no such path", "没有这个路径")


class MethodNotAllowed(BerthError):
    """The path exists, but not with this method; the `Allow` header lists what it offers."""

    code = "method_not_allowed"
    status = 405
    title = Text("The path does not offer this method", "该路径不支持此方法")


class NotAcceptable(BerthError):
    """The answer does not exist in any format that the `Accept` header asks for."""

    code = "not_acceptable"
    status = 406
    title = Text("There is no such representation", "没有所需的表示形式")


class RequestTimeout(BerthError):
    """The body did not arrive in time."""

    code = "request_timeout"
    status = 408
    title = Text("The request took too long to arrive", "请求传输超时")
    retryable = True


class UnsupportedMediaType(BerthError):
    """The operation does not read bodies of this content type."""

    code = "unsupported_media_type"
    status = 415
    title = Text("The content type is not supported", "不支持该内容类型")


class IdempotencyKeyReused(BerthError):
    """The `Idempotency-Key` was used within the last 24 hours with another body or for another operation."""

    code = "idempotency_key_reused"
    status = 422
    title = Text("The idempotency key belongs to another request", "幂等键已用于另一请求")


class ShownOnce(BerthError):
    """The first request with this `Idempotency-Key` was carried out, and its answer held a secret that is shown once and kept
    nowhere."""

    code = "shown_once"
    status = 409
    title = Text("The answer was shown once", "该答复只显示一次")


class InternalError(BerthError):
    """A fault of Berth. Its log holds the traceback under the same request id."""

    code = "internal_error"
    status = 500
    title = Text("Berth failed", "Berth 内部错误")
    retryable = True
