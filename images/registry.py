"""What registries say of a tenant's images: asked with the tenant's own account, for a short time, and remembered for a moment.

An answer counts for the tenant that asked: what one account may pull says nothing about another's.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from clusters.registries.client import Registry
from clusters.registries.errors import RegistryError, RegistryTimeout
from clusters.registries.references import Reference
from clusters.registries.rules import Account, rules_of
from images.cuda import requirement_of
from images.errors import failure_of
from images.services.accounts import account_at, account_marks
from kernel.config import current
from kernel.words import Text

REMEMBERED_SECONDS = 60.0  # A tag that is pushed anew means the new image a minute later; an array asks once.
REMEMBERED_MAX = 10_000
REFUSED_SECONDS = 5.0  # A tag that was missing is pushed, and submitted at once.
AWAY_SECONDS = 10.0  # How long a registry that did not answer is not asked again for the same tenant: a batch waits once.
WAITING_SECONDS = 20.0  # Of a minute, how long a tenant's requests may wait for registries in one process.
WAITING_AT_ONCE_MAX = 8  # Of a tenant, in one process: each holds a thread that answers everybody.
_MINUTE = 60.0

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class FoundImage:
    """What a registry has under a reference. `digest` pins it; `size_bytes` is what is transferred; `cuda` as in `images.cuda`.

    It is remembered: of what the image's maker wrote, megabytes perhaps, nothing else is kept.
    """

    digest: str
    size_bytes: int
    cuda: str = ""


_lock = threading.Lock()
_remembered: OrderedDict[tuple[object, ...], tuple[float, FoundImage]] = OrderedDict()
_refused: OrderedDict[tuple[object, ...], tuple[float, RegistryError]] = OrderedDict()
_away: OrderedDict[tuple[uuid.UUID, str], tuple[float, RegistryError]] = OrderedDict()
_waited: OrderedDict[uuid.UUID, tuple[float, float]] = OrderedDict()  # The minute's beginning, and seconds since.
_waiting: Counter[uuid.UUID] = Counter()


def look_up(*, tenant_id: uuid.UUID, reference: Reference, seconds: float | None = None) -> FoundImage:
    """Ask the registry what a reference means for a tenant. RegistryFailure says what is wrong, and `retryable` whether it may
    pass. Not for transactions: a registry may be slow. `seconds` defaults to the time that a user waits at submission."""
    key = (tenant_id, str(reference), account_marks(tenant_id, reference.host))
    found = _recall(key)
    if found is None:
        with _lock:
            at, refusal = _refused.get(key, (0.0, None))
        if refusal is not None and time.monotonic() - at < REFUSED_SECONDS:
            raise failure_of(refusal)
        account = account_at(tenant_id, reference.host)
        try:
            found = _ask_in_turn(tenant_id, reference, account, current().registry_seconds if seconds is None else seconds)
        except RegistryError as error:
            if not error.passes:
                with _lock:
                    _refused[key] = (time.monotonic(), error)
                    _shorten(_refused)
            raise failure_of(error) from None
        _remember(key, found)
    return found


def check_account(*, tenant_id: uuid.UUID, host: str) -> None:
    """Whether a registry answers, and takes the tenant's account. RegistryFailure says what is wrong."""
    try:
        _within_patience(tenant_id, partial(_check, host, account_at(tenant_id, host)))
    except RegistryError as error:
        raise failure_of(error) from None


def forget() -> None:
    """Ask registries anew, as a new process does."""
    with _lock:
        _remembered.clear()
        _refused.clear()
        _away.clear()
        _waited.clear()


def _ask_in_turn(tenant_id: uuid.UUID, reference: Reference, account: Account | None, seconds: float) -> FoundImage:
    """Ask, unless this registry did not answer just now."""
    key = (tenant_id, reference.host)
    with _lock:
        at, failure = _away.get(key, (0.0, None))
    if failure is not None and time.monotonic() - at < AWAY_SECONDS:
        raise failure
    try:
        return _within_patience(tenant_id, partial(_ask, reference, account, seconds))
    except RegistryError as error:
        if error.passes:
            with _lock:
                _away[key] = (time.monotonic(), error)
                _shorten(_away)
        raise


def _within_patience(tenant_id: uuid.UUID, ask: Callable[[], Answer]) -> Answer:
    """Ask, unless the tenant has waited for registries too long this minute, or too many of its requests wait now."""
    began_at = time.monotonic()
    with _lock:
        since, waited = _waited.get(tenant_id, (began_at, 0.0))
        is_over = began_at - since > _MINUTE
        if _waiting[tenant_id] >= WAITING_AT_ONCE_MAX or (waited > WAITING_SECONDS and not is_over):
            raise RegistryTimeout(
                Text(
                    "Registries kept this tenant's requests waiting: no more are asked for a moment.",
                    "镜像仓库让此租户的请求等待过久：暂不再访问。",
                )
            )
        if is_over:
            _waited[tenant_id] = (began_at, 0.0)
        _waiting[tenant_id] += 1
    try:
        return ask()
    finally:
        with _lock:
            _waiting[tenant_id] -= 1
            if not _waiting[tenant_id]:
                del _waiting[tenant_id]
            since, waited = _waited.get(tenant_id, (began_at, 0.0))
            _waited[tenant_id] = (since, waited + time.monotonic() - began_at)
            _shorten(_waited)


def _shorten(remembered: OrderedDict[Any, Any]) -> None:
    while len(remembered) > REMEMBERED_MAX:
        remembered.popitem(last=False)


def _ask(reference: Reference, account: Account | None, seconds: float) -> FoundImage:
    with Registry(reference.host, rules=rules_of(current()), account=account, seconds=seconds) as registry:
        manifest = registry.find(reference)
        config = registry.config(reference, manifest)
    return FoundImage(manifest.pinned, manifest.size_bytes, requirement_of(config.env, config.labels))


def _check(host: str, account: Account | None) -> None:
    with Registry(host, rules=rules_of(current()), account=account, seconds=_patience()) as registry:
        registry.check()


def _patience() -> float:
    return current().registry_seconds or 5.0  # Who asks for a check gets one, also where submissions are not checked.


def _recall(key: tuple[object, ...]) -> FoundImage | None:
    with _lock:
        at, found = _remembered.get(key, (0.0, None))
    return found if found is not None and time.monotonic() - at < REMEMBERED_SECONDS else None


def _remember(key: tuple[object, ...], found: FoundImage) -> None:
    with _lock:
        _remembered[key] = (time.monotonic(), found)
        _remembered.move_to_end(key)
        _shorten(_remembered)
