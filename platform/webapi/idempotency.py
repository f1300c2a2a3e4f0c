"""`Idempotency-Key`: a request that is sent again, because its answer was lost, has its effect once.

The key's row is written first, in the transaction of the effect: a second request waits for it at the unique constraint
and then answers from the row. A request that fails leaves no row, so that it can be corrected and sent with the same key.
Kept answers are sealed with the installation's key.

A kept answer is given to rights that carried the request out, and to no lesser ones. The row holds what the first request rested
on: the scopes of its token, and every right that the policy granted on the way. A repetition by a token that lacks one of
them, or after a role was lost, is refused. What is shown once (`OnceResponse`) is not kept: repeating says that it was done.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.db import IntegrityError, transaction
from django.http.request import RawPostDataException
from django.utils.encoding import force_bytes
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import Actor
from kernel.clock import database_now
from kernel.crashpoints import crashpoint
from kernel.errors import FieldError, Forbidden, InvalidInput, Unavailable
from kernel.units import run_unit
from kernel.words import Text
from upstream.rest_framework import plain
from webapi.access import Granted, holds, noting_grants
from webapi.actors import actor_of
from webapi.errors import IdempotencyKeyReused, ShownOnce
from webapi.models import IdempotencyKey

KEY_LENGTH_MAX = 200
KEPT = timedelta(hours=24)  # Design 4: clients retry for minutes; a day covers a night.
STORED_BODY_BYTES = 1024 * 1024  # A longer answer is replayed as its status alone: the effect still happens once.
STORED_HEADERS = ("ETag", "Location")
DELETE_BATCH = 5_000

Handler = TypeVar("Handler", bound=Callable[..., Response])


class OnceResponse(Response):
    """An answer with a secret that is shown this once: whatever else is kept of the request, this is not."""


def idempotent(handler: Handler) -> Handler:
    """Make a handler honour `Idempotency-Key`. With one, it runs in a transaction together with the key's row.

    Without the header, or without an actor, the handler runs as it is. The same key with another body or for another
    operation is refused (422). What is slow and changes nothing, as asking another server is, belongs into the view's
    `beforehand`, which takes what the handler takes and runs before the transaction; its answers are found again in a memory.
    """

    @functools.wraps(handler)
    def run(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        key = request.headers.get("Idempotency-Key", "")
        actor = actor_of(request)
        if not key or actor.user_id is None:
            return handler(view, request, *args, **kwargs)
        _check_key(key)
        if hasattr(view, "beforehand"):
            view.beforehand(request, *args, **kwargs)
        call = functools.partial(handler, view, request, *args, **kwargs)
        return run_unit(lambda: _run_once(call, request, actor=actor, key=key))

    run.is_idempotent = True  # type: ignore[attr-defined]  # The API description adds the header to such operations.
    return run  # type: ignore[return-value]  # functools.wraps keeps the signature; mypy cannot see it.


def delete_expired(*, now: datetime) -> int:
    """Forget keys older than a day; one bounded batch, so a sweep calls it until it returns 0."""
    expired = IdempotencyKey.objects.filter(expires_at__lte=now).order_by("expires_at").values("id")[:DELETE_BATCH]
    deleted, _ = IdempotencyKey.objects.filter(id__in=list(expired.values_list("id", flat=True))).delete()
    return deleted


def _check_key(key: str) -> None:
    if len(key) > KEY_LENGTH_MAX or not key.isprintable():
        message = Text(
            f"Idempotency-Key must have at most {KEY_LENGTH_MAX} printable characters.",
            f"Idempotency-Key 最多 {KEY_LENGTH_MAX} 个可打印字符。",
        )
        raise InvalidInput(message, fields=[FieldError("/Idempotency-Key", "invalid", message)])


def _run_once(call: Callable[[], Response], request: Request, *, actor: Actor, key: str) -> Response:
    assert actor.user_id is not None, "keys belong to users"
    actor_id = actor.user_id
    operation = f"{request.method} {request.get_full_path()}"[:500]
    digest = _digest(request)
    now = database_now()
    with transaction.atomic():
        row = _claim(actor_id=actor_id, key=key, operation=operation, digest=digest, now=now)
        if row is None:
            return _replay(actor=actor, key=key, operation=operation, digest=digest)
        with noting_grants() as granted:
            response = call()
        if response.status_code >= 400:  # A refusal that was returned, not raised: nothing of it is kept.
            transaction.set_rollback(True)
            return response
        _store(row, response, rights=_rights(actor, granted))
    crashpoint("webapi.key.after_commit")
    return response


def _claim(*, actor_id: uuid.UUID, key: str, operation: str, digest: str, now: datetime) -> IdempotencyKey | None:
    """Insert the key's row; None when there is one already. Waits for a transaction that is just inserting the same."""
    IdempotencyKey.objects.filter(actor_id=actor_id, key=key, expires_at__lte=now).delete()
    row = IdempotencyKey(
        actor_id=actor_id, key=key, operation=operation, body_digest=digest, created_at=now, expires_at=now + KEPT
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return None
    return row


def _replay(*, actor: Actor, key: str, operation: str, digest: str) -> Response:
    assert actor.user_id is not None, "keys belong to users"
    row = IdempotencyKey.objects.filter(actor_id=actor.user_id, key=key).first()
    if row is None:  # The first request failed in this very moment and took its row with it.
        raise Unavailable(
            Text("The same request is just being carried out.", "同一请求正在执行。"),
            hint=Text("Send it again.", "请重新发送。"),
            retry_after_seconds=1,
        )
    if (row.operation, row.body_digest) != (operation, digest):
        raise IdempotencyKeyReused(
            Text(
                f"The key {key!r} was used for {row.operation.split('?')[0]} with another body or query.",
                f"键 {key!r} 已用于 {row.operation.split('?')[0]}，且请求体或查询不同。",
            ),
            hint=Text("Make a new key for a new request.", "新的请求请使用新的键。"),
        )
    _check_rights(actor, row)
    if row.is_shown_once:
        raise ShownOnce(
            Text(
                f"{operation.split('?')[0]} was carried out by the first request with this key. Its answer held a secret, which "
                "was shown once and is kept nowhere.",
                f"使用此键的第一个请求已执行 {operation.split('?')[0]}。其应答含有只显示一次、不作保存的机密内容。",
            ),
            hint=Text(
                "If that answer was lost, delete what was made, and make it again with a new key.",
                "如答复已丢失，请删除已创建的内容，再用新键重新创建。",
            ),
        )
    body = _keys().decrypt(row.body.encode()) if row.body else b""
    response = Response(json.loads(body) if body else None, status=row.status)
    for name, value in row.headers.items():
        response[name] = value
    response["Idempotency-Replayed"] = "true"
    return response


def _rights(actor: Actor, granted: Iterable[Granted]) -> dict[str, Any]:
    """What the request rested on, as the row keeps it."""
    return {
        "scopes": None if actor.scopes is None else sorted(actor.scopes),
        "is_operator": actor.is_operator,
        "granted": sorted([str(grant.tenant_id or ""), grant.verb, grant.is_own] for grant in granted),
    }


def _check_rights(actor: Actor, row: IdempotencyKey) -> None:
    """Raise Forbidden unless the actor holds, now and through this credential, all that the first request rested on."""
    rights = row.rights or {"scopes": None, "is_operator": False, "granted": []}
    needed = rights["scopes"]
    enough = actor.scopes is None or (needed is not None and actor.scopes >= set(needed))
    enough = enough and (actor.is_operator or not rights["is_operator"])
    for tenant_id, verb, is_own in rights["granted"] if enough else ():
        enough = enough and holds(actor, Granted(uuid.UUID(tenant_id) if tenant_id else None, verb, is_own))
    if not enough:
        raise Forbidden(
            Text(
                "The answer kept under this Idempotency-Key was given to rights that you do not have now, or not through this "
                "token.",
                "此 Idempotency-Key 所保存的应答属于您现在没有、或此令牌不具备的权限。",
            ),
            hint=Text(
                "Repeat the request with the token that sent it first, or make a new key for a new request.",
                "请用最初的令牌重复该请求，或为新请求使用新的键。",
            ),
        )


def _store(row: IdempotencyKey, response: Response, *, rights: dict[str, Any]) -> None:
    row.rights = rights
    row.is_shown_once = isinstance(response, OnceResponse)
    body = JSONRenderer().render(response.data) if response.data is not None and not row.is_shown_once else b""
    row.status = response.status_code
    row.body = _keys().encrypt(body).decode() if 0 < len(body) <= STORED_BODY_BYTES else ""
    row.headers = {name: response[name] for name in STORED_HEADERS if response.has_header(name)}
    row.save(update_fields=["status", "body", "headers", "rights", "is_shown_once"])


def _digest(request: Request) -> str:
    """The body's digest. Read before the parsers, which consume the stream; from the parsed data otherwise."""
    try:
        body = plain(request).body
    except RawPostDataException:
        body = JSONRenderer().render(request.data)
    return hashlib.sha256((request.content_type or "").encode() + b"\0" + body).hexdigest()


def _keys() -> MultiFernet:
    """The installation's key for kept answers, and its older ones while they are being replaced."""
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    digests = [hashlib.sha256(b"webapi.idempotency\0" + force_bytes(secret)).digest() for secret in secrets]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
