"""Pages that something on each node serves, read through the API server: some at once, each for a short time.

A node that is slow or dead costs its own figures and no other's: it is asked once, waited for briefly, and left alone for a
minute. A round is short, too: what it does not come to is first in the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes.api import Api, ApiRefused

PAGE_SECONDS = 3.0
PAGE_BYTES = 4 * 1024 * 1024  # A node with 16 GPUs and all metrics of NVIDIA's exporter: 0.5 MiB.
ROUND_SECONDS = 2.0
FAILED_SECONDS = 60.0
KEPT_SECONDS = 45.0  # Older figures are a gap.

Page = TypeVar("Page")


@dataclass(frozen=True, slots=True)
class _Read(Generic[Page]):
    at: float
    page: Page


class Pages(Generic[Page]):
    """The newest page of each node, as `read` understands it; ValueError of `read` is a page that fails. Threads may share it."""

    def __init__(
        self,
        api: Api,
        read: Callable[[bytes], Page],
        *,
        parallel: int,
        every_seconds: float = 0.0,
        round_seconds: float = ROUND_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._parse, self._parallel = api, read, parallel
        self._every_seconds, self._round_seconds, self._clock = every_seconds, round_seconds, clock
        self._lock = threading.Lock()
        self._due_at: dict[str, float] = {}  # By path, as the pages: a pod that was replaced has another.
        self._pages: dict[str, _Read[Page]] = {}

    def of(self, paths: Mapping[str, str]) -> dict[str, Page]:
        """The pages at these paths, by node; read anew where they are due, and without those that are not to be had."""
        with self._lock:
            self._due_at = {path: self._due_at.get(path, 0.0) for path in paths.values()}
            began = self._clock()
            due = sorted((at, path) for path, at in self._due_at.items() if at <= began)
            if due:
                with ThreadPoolExecutor(min(self._parallel, len(due)), thread_name_prefix="kubernetes-pages") as pool:
                    list(pool.map(lambda item: self._look(item[1], began + self._round_seconds), due))
            oldest = self._clock() - KEPT_SECONDS
            self._pages = {path: kept for path, kept in self._pages.items() if path in self._due_at and kept.at >= oldest}
            return {node: self._pages[path].page for node, path in paths.items() if path in self._pages}

    def _look(self, path: str, until: float) -> None:
        began = self._clock()
        if began > until:
            return
        try:
            page = self._parse(self._api.once(path, seconds=PAGE_SECONDS, bytes_max=PAGE_BYTES))
        except (ApiRefused, EngineUnreachable, ValueError):
            self._due_at[path] = self._clock() + FAILED_SECONDS
            self._pages.pop(path, None)
        else:
            self._due_at[path] = began + self._every_seconds
            self._pages[path] = _Read(began, page)
