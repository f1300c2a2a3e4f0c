"""How long a task is waited for that does not begin, and what is said of it then.

An image is waited for from the moment at which its pull was first seen to fail. A pod's place on a node says nothing of that:
pulls of a node take turns, and the first try may be one that could not succeed (`states._has_account`).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.states import Trouble


class Patience:
    """Remembers, by UID of their pods, which tasks do not begin. What it forgets with its process is waited for anew."""

    def __init__(self, config: KubernetesConfig) -> None:
        self._config = config
        self._first: dict[str, tuple[datetime, Trouble]] = {}

    def find_lasting(self, uid: str, trouble: Trouble, now: datetime) -> Trouble | None:
        """The trouble for which the task is given up now, or None: it is waited for."""
        if trouble.at_once:
            return trouble
        first_at, told = self._first.get(uid, (now, trouble))
        told = told if trouble.repeats else trouble
        self._first[uid] = first_at, told
        is_unschedulable = told.code == "unschedulable"
        seconds = self._config.unschedulable_patience_seconds if is_unschedulable else self._config.image_patience_seconds
        return told if now - (trouble.since or first_at) > timedelta(seconds=seconds) else None

    def keep(self, uids: Collection[str]) -> None:
        """Forget all other pods."""
        self._first = {uid: first for uid, first in self._first.items() if uid in uids}
