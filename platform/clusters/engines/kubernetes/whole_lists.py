"""When whole lists of gates and pods are made, which alone can say that something is not there.

Where they are quick they are made at every look. A list of 20,000 pods takes seconds: it is made beside the looks, one at a time
and for a twentieth of the time, so that no look waits for it and no end is known late. The look after it is as complete as the
lists were when they began. Gates come first: what was released by then has its pods in the list that follows.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes.api import ApiRefused
from clusters.engines.kubernetes.cache import Cache


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
        self._outcome: Lists | EngineUnreachable | ApiRefused | None = None

    def take(self) -> Lists | None:
        """Lists that no look has had yet; None: there are none now. Raises EngineUnreachable and ApiRefused."""
        both = (self._gates, self._pods)
        if not all(cache.is_fresh() for cache in both) or all(cache.is_list_quick() for cache in both):
            return self._make()
        with self._lock:
            outcome, self._outcome = self._outcome, None
            if outcome is None and self._thread is None and all(cache.is_list_cheap() for cache in both):
                self._thread = threading.Thread(target=self._make_beside, name="kubernetes-lists", daemon=True)
                self._thread.start()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _make(self) -> Lists:
        read_at = datetime.now(UTC)
        gate_version = self._gates.relist()
        self._pods.relist()
        return Lists(read_at, gate_version)

    def _make_beside(self) -> None:
        outcome: Lists | EngineUnreachable | ApiRefused | None = None
        try:
            outcome = self._make()
        except (EngineUnreachable, ApiRefused) as error:  # It is the next look's to tell.
            outcome = error
        finally:
            with self._lock:
                self._outcome, self._thread = outcome, None
