"""A row for every process that lives, renewed every few seconds: what `/readyz` and `manage.py processes` show.

Nothing is decided by it: leadership has leases of its own. A row that is not renewed tells of a process that died, and is
removed after a day.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from datetime import datetime, timedelta

from controlplane.processes.leader import leading
from kernel.clock import database_now
from kernel.ids import new_id
from kernel.version import VERSION
from reconciling.models import Process

HEARTBEAT_SECONDS = 5.0
SILENT = timedelta(seconds=20)  # Three beats and a moment: a process silent for so long is taken for dead.
KEPT = timedelta(days=1)


class Heartbeat:
    """The row of this process."""

    def __init__(self, role: str, *, url: str = "") -> None:
        self.role = role
        self.url = url
        self.id: uuid.UUID = new_id()

    def beat(self, stop: threading.Event) -> float:
        """Say that we live and what we lead: one round of a loop."""
        now = database_now()
        seen = {"seen_at": now, "leads": leading()}
        if not Process.objects.filter(pk=self.id).update(**seen):
            Process.objects.create(
                id=self.id, role=self.role, host=socket.gethostname(), pid=os.getpid(), version=VERSION, url=self.url,
                started_at=now, **seen,
            )  # fmt: skip
            Process.objects.filter(seen_at__lt=now - KEPT).delete()
        return HEARTBEAT_SECONDS

    def end(self) -> None:
        """We end in order: the process is not reported as missing."""
        Process.objects.filter(pk=self.id).delete()


def url_of_this_host(now: datetime) -> str:
    """Where a web process of this installation on this host serves; empty if none lives here."""
    here = [row for row in living(now) if row.host == socket.gethostname() and row.url]
    return max(here, key=lambda row: row.seen_at).url if here else ""


def living(now: datetime) -> list[Process]:
    """The processes that said something lately, by role."""
    return list(Process.objects.filter(seen_at__gte=now - SILENT).order_by("role", "host", "started_at"))
