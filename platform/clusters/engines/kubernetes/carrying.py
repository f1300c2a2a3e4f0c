"""Carries code snapshots into pods that are too large for an object of the API and on no path that the nodes share.

Such a pod has an init container that waits for the snapshot's file; it is written by `exec`, from a thread beside `observe`, and
looked at again with the next look. Whoever is killed, or loses the connection, leaves a part that nobody takes for the whole.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes import names, states, wrapper
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.execution import Websockets, exec_path, write_input

_AGAIN_SECONDS = 5.0
logger = logging.getLogger("berth.engines.kubernetes")


class Carrier:
    """Carries code into the pods of one cluster. Threads share it."""

    def __init__(self, websocket: Websockets, parallel: int) -> None:
        self._websocket, self._parallel = websocket, parallel
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}  # By UID, when a pod may be carried to again; those under way have no such time yet.

    def carry(self, location: str, pods: Sequence[Json]) -> None:
        """Begin to write the file into those pods that wait for it; returns at once."""
        for pod in pods:
            if states.waits_for_code(pod):
                self._begin(location, pod)

    def close(self) -> None:
        """Begin nothing more; what is under way ends by itself, or with the process."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None

    def _begin(self, location: str, pod: Json) -> None:
        uid, now = str(pod["metadata"]["uid"]), time.monotonic()
        with self._lock:
            if self._until.get(uid, now) > now:
                return
            self._until = {key: until for key, until in self._until.items() if until > now}
            self._until[uid] = float("inf")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="kubernetes-code")
            self._pool.submit(self._carry, location, pod, uid)

    def _carry(self, location: str, pod: Json, uid: str) -> None:
        try:
            with open(location, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                code = write_input(self._open(pod, size), file)
            if code != 0:
                logger.warning("code_not_carried", extra={"pod": pod["metadata"]["name"], "code": code})
        except (EngineUnreachable, OSError) as error:
            logger.warning("code_not_carried", extra={"pod": pod["metadata"]["name"], "error": str(error)})
        finally:
            with self._lock:
                self._until[uid] = time.monotonic() + _AGAIN_SECONDS

    def _open(self, pod: Json, size: int) -> Any:
        argv = ["/bin/sh", "-c", wrapper.TAKE_CODE_SCRIPT, "berth", str(size)]
        return self._websocket(exec_path(pod, argv, terminal=False, container=names.CARRIER))
