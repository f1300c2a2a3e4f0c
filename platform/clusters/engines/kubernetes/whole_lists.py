"""When whole lists of gates and pods are made, which alone can say that something is not there.

Where they are quick they are made at every look. A list of 20,000 pods takes seconds: it is made beside the looks, one at a time
and for a twentieth of the time, so that no look waits for it and no end is known late. The look after it is as complete as the
lists were when they began. Gates come first: what was released by then has its pods in the list that follows.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes.api import ApiRefused
from clusters.engines.kubernetes.cache import Cache

logger = logging.getLogger("berth.engines.kubernetes")

_PAUSE = 19.0  # Times as long as a list took that failed, until the next: a server that is slow is not kept busy by lists.


@dataclass(frozen=True, slots=True)
class Lists:
    """What was there at `read_at` is known. Of a gate that changed after `gate_version` it is not known whether a pod is gone."""

    read_at: datetime
    gate_version: int


class WholeLists:
    """The lists of one cluster."""

    def __init__(self, gates: Cache, pods: Cache) -> None:
        self._gates, self._pods = gates, pods
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._made: Lists | None = None
        self._not_before = 0.0

    def take(self) -> Lists | None:
        """Lists that no look has had yet; None: there are none now. Raises EngineUnreachable and ApiRefused where a copy is not
        kept up, so that nothing can be said without."""
        both = (self._gates, self._pods)
        if not all(cache.is_fresh() for cache in both) or all(cache.is_list_quick() for cache in both):
            return self._make()
        with self._lock:
            made, self._made = self._made, None
            is_due = time.monotonic() >= self._not_before and all(cache.is_list_cheap() for cache in both)
            if made is None and self._thread is None and is_due:
                self._thread = threading.Thread(target=self._make_beside, name="kubernetes-lists", daemon=True)
                self._thread.start()
        return made

    def _make(self) -> Lists:
        read_at = datetime.now(UTC)
        gate_version = self._gates.relist()
        self._pods.relist()
        return Lists(read_at, gate_version)

    def _make_beside(self) -> None:
        made, began = None, time.monotonic()
        try:
            made = self._make()
        except (EngineUnreachable, ApiRefused) as error:  # Looks go on: a watch that is heard tells of all that changes.
            logger.info("lists_not_made", extra={"error": str(error)})
        finally:
            now = time.monotonic()
            with self._lock:
                self._made, self._thread = made, None
                self._not_before = now if made is not None else now + _PAUSE * (now - began)
