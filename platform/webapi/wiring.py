"""What the HTTP conventions bring: errors, those of the kernel among them, which is no app, and a crash point."""

from __future__ import annotations

from kernel.crashpoints import register_crash_points
from kernel.tenant_rows import ACTOR, register_tenant_rows
from webapi.reference import register_errors

ERRORS = {
    "target_refused": "Give the address of a web server on the internet; an operator may allow private ones.",
    "error": "Read `detail` and `hint`.",
    "invalid_input": "Correct every place that `fields` lists, and send the request again.",
    "not_authenticated": "Run `berth login`, or send `Authorization: Bearer <token>`. Tokens expire and can be revoked.",
    "forbidden": "Ask a manager of the tenant for the role, or use a token with the needed scope.",
    "not_found": "List what you can see. Objects of tenants that you do not belong to do not exist for you.",
    "conflict": "Read the object again; it may have ended, or another user changed it.",
    "precondition_failed": "Read the object again, apply your change to it, and send the new `If-Match`.",
    "plan_changed": "Check `plan` in the answer; send its `plan`, or none, to apply it.",
    "too_large": "Send less at once; files go through uploads, many jobs through several batches.",
    "quota_exceeded": "Lower the request, or ask a manager to raise the limit that `detail` names.",
    "too_many_requests": "Wait as long as `Retry-After` says. Lists and batches need fewer requests than single objects.",
    "unavailable": "Send the same request again after `Retry-After`; with an `Idempotency-Key` nothing happens twice.",
    "storage_full": "Delete what is no longer needed, or ask an operator for more room.",
    "malformed_body": "Check the syntax at the line and column that `detail` names, and the `Content-Type`.",
    "bad_request": "Check headers, host name and encoding of the request.",
    "invalid_cursor": "Start again without `cursor`, and pass on `next` unchanged.",
    "feature_off": "Ask an operator to switch it on; GET `/api/v1/features` lists the features.",
    "route_not_found": "Compare the path with the API description at `/api/v1/docs`.",
    "method_not_allowed": "Use a method that the `Allow` header lists.",
    "not_acceptable": "Ask for `application/json`.",
    "request_timeout": "Send the request again over a faster connection, or in smaller parts.",
    "unsupported_media_type": "Use a content type that the API description lists for the operation.",
    "shown_once": (
        "The first request has had its effect. Where its answer was lost, delete what it made, and make it again with a new key."
    ),
    "idempotency_key_reused": "Make a new key for a new request; reuse one only to repeat the same request.",
    "internal_error": "Give the `request_id` to an operator: the log holds the details under it.",
}

CRASH_POINTS = {
    "webapi.key.after_commit": "What a request with a key did is stored with its key, the client has no answer yet.",
}

TENANT_ROWS = {
    "webapi.IdempotencyKey": (ACTOR,),
}


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_errors(ERRORS)
    register_crash_points(CRASH_POINTS)
    register_tenant_rows(TENANT_ROWS)
