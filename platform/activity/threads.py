"""Database work of the asynchronous parts: in a thread of the pool, which keeps no connection afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` beside the event loop."""

    def run() -> R:
        close_old_connections()
        try:
            return work(*args, **kwargs)
        finally:
            close_old_connections()

    return await sync_to_async(run, thread_sensitive=False)()
