"""What users can be told of their jobs."""

from __future__ import annotations

from activity.notifications.kinds import job_kind, written_kind
from kernel.words import Text

STARTED_STATES = frozenset({"admitted", "starting", "running", "stopping"})

RUNNING = job_kind("running", place=10, event="job.running", title=Text("{name} started", "{name} 已启动"))
SUCCEEDED = job_kind(
    "succeeded", place=20, event="job.succeeded", title=Text("{name} succeeded", "{name} 已成功"), is_default=True
)
FAILED = job_kind("failed", place=30, event="job.failed", title=Text("{name} failed", "{name} 已失败"), is_default=True)
STOPPED = job_kind("stopped", place=40, event="job.stopped", title=Text("{name} was stopped", "{name} 已被停止"))
RETRIED = job_kind(  # An attempt is over, and the job waits for the next one.
    "retried", place=50, event="job.queued", title=Text("{name} starts again", "{name} 将重新运行"), came_from=STARTED_STATES
)
PRIORITY = written_kind("priority", place=70)  # A user asked for a higher priority, or it was decided.
LIMIT = written_kind("limit", place=90)  # The time that a job may run is nearly over.
