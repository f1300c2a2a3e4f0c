"""How long the work in hand may still last. A request whose time is over is given up at the next thing it asks for.

The deadline travels with the context (`contextvars`), so that whatever works for a request, in whatever thread, sees it; what
runs for no request has none. Monotonic: a clock that is set does not move it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

from kernel.errors import Unavailable
from kernel.words import Text

_deadline: ContextVar[float | None] = ContextVar("berth_deadline", default=None)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Give the block so many seconds; an outer, earlier deadline stays."""
    outer, mine = _deadline.get(), time.monotonic() + seconds
    token = _deadline.set(mine if outer is None else min(outer, mine))
    try:
        yield
    finally:
        _deadline.reset(token)


def check() -> None:
    """Raise Unavailable if the time is over."""
    deadline = _deadline.get()
    if deadline is not None and time.monotonic() > deadline:
        raise Unavailable(
            Text(
                "This took longer than a request may: the database answers slowly.",
                "处理时间超过一个请求的时限：数据库响应缓慢。",
            ),
            hint=Text(
                "Send it again in a moment; with the same Idempotency-Key it is done once.",
                "请稍后重新发送；使用同一 Idempotency-Key 只会执行一次。",
            ),
            retry_after_seconds=5,
        )
