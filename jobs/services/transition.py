"""The door of jobs, attempts and tasks: their lifecycle tables bound to their models."""

from jobs.lifecycle.requests import REQUEST
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JOB_LIFECYCLE, TASK_LIFECYCLE
from jobs.models import Attempt, Job, PriorityRequest, Task
from reconciling.transition import Binding, Change, apply

JOB = Binding("job", Job, JOB_LIFECYCLE)
ATTEMPT = Binding("attempt", Attempt, ATTEMPT_LIFECYCLE, job_column="job_id")
# Tasks change in masses; their attempt's events tell the story, their transitions keep the detail.
TASK = Binding("task", Task, TASK_LIFECYCLE, job_column="job_id", emits_events=False)
REQUESTS = Binding("priority_request", PriorityRequest, REQUEST, job_column="job_id")

__all__ = ["ATTEMPT", "JOB", "REQUESTS", "TASK", "Change", "apply"]
