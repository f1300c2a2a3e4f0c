"""Failures of the HTTP layer itself: what a request can get wrong before any domain code has seen it."""

from __future__ import annotations

from kernel.errors import BerthError


class MalformedBody(BerthError):
    """The body is not the JSON (or other format) that its content type says; line and column are in the detail."""

    code = "malformed_body"
    status = 400
    title = "The body cannot be read"


class BadRequest(BerthError):
    """The request breaks rules of HTTP itself: a broken header, host name or encoding."""

    code = "bad_request"
    status = 400
    title = "The request cannot be understood"


class InvalidCursor(BerthError):
    """The cursor was not made by this list: it was changed, cut off, or comes from another list."""

    code = "invalid_cursor"
    status = 400
    title = "The cursor is not valid"


class FeatureOff(BerthError):
    """The feature that this operation is a part of is switched off for the installation, or for the tenant."""

    code = "feature_off"
    status = 404
    title = "This feature is switched off"


class RouteNotFound(BerthError):
    """No operation has this path."""

    code = "route_not_found"
    status = 404
    title = "There is no such path"


class MethodNotAllowed(BerthError):
    """The path exists, but not with this method; the `Allow` header lists what it offers."""

    code = "method_not_allowed"
    status = 405
    title = "The path does not offer this method"


class NotAcceptable(BerthError):
    """The answer does not exist in any format that the `Accept` header asks for."""

    code = "not_acceptable"
    status = 406
    title = "There is no such representation"


class RequestTimeout(BerthError):
    """The body did not arrive in time."""

    code = "request_timeout"
    status = 408
    title = "The request took too long to arrive"
    retryable = True


class UnsupportedMediaType(BerthError):
    """The operation does not read bodies of this content type."""

    code = "unsupported_media_type"
    status = 415
    title = "The content type is not supported"


class IdempotencyKeyReused(BerthError):
    """The `Idempotency-Key` was used within the last 24 hours with another body or for another operation."""

    code = "idempotency_key_reused"
    status = 422
    title = "The idempotency key belongs to another request"


class ShownOnce(BerthError):
    """The first request with this `Idempotency-Key` was carried out, and its answer held a secret that is shown once and kept
    nowhere."""

    code = "shown_once"
    status = 409
    title = "The answer was shown once"


class InternalError(BerthError):
    """A fault of Berth. Its log holds the traceback under the same request id."""

    code = "internal_error"
    status = 500
    title = "Berth made a mistake"
    retryable = True
