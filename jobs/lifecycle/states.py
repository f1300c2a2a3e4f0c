"""The life of jobs, attempts and tasks: three tables, each the documentation, the validator and the input of its tests.

Few states, many reasons: why a job waits or how it ended is in its reason, never in a further state. A terminal state is final.

An **array parent** starts QUEUED, goes to RUNNING when the first child leaves QUEUED, back to STARTING never, and ends when all
children have ended; its state is derived from theirs (`completion.derive_array_state`) along the same edges.
"""

from __future__ import annotations

from enum import StrEnum

from kernel.lifecycle import lifecycle


class JobState(StrEnum):
    QUEUED = "queued"  # Accepted. Waits for capacity, a dependency, a time, a release or a retry: its reason says which.
    ADMITTED = "admitted"  # Capacity is reserved and an attempt exists.
    STARTING = "starting"  # The engine has the attempt.
    RUNNING = "running"  # All tasks run.
    STOPPING = "stopping"  # The end of the attempt was asked for and not yet confirmed.
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # At a user's wish, before or while it ran.


class CheckpointGate(StrEnum):
    """Whether the directory that a job keeps lets its next attempt start."""

    KEPT = "kept"
    CHECKING = "checking"  # It is looked through after the attempt before, or filled with the copy that the job begins from.
    REFUSED = "refused"  # The job is held: an attempt could not go on from it.


class AttemptState(StrEnum):
    ADMITTED = "admitted"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"  # The engine confirmed that nothing of it runs; the outcome says how.


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    PREEMPTED = "preempted"


class TaskState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


JOB_LIFECYCLE = lifecycle(
    "job",
    JobState,
    {
        # A parent of an array runs as soon as a child does, without an attempt of its own; it may also end from QUEUED,
        # when all children ended between two looks at them.
        JobState.QUEUED: {JobState.ADMITTED, JobState.RUNNING, JobState.STOPPED, JobState.FAILED, JobState.SUCCEEDED},
        JobState.ADMITTED: {
            *(JobState.STARTING, JobState.RUNNING, JobState.STOPPING),
            *(JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED),
        },
        JobState.STARTING: {
            *(JobState.RUNNING, JobState.STOPPING),
            *(JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED),
        },
        JobState.RUNNING: {JobState.STOPPING, JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED},
        JobState.STOPPING: {JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED},
        JobState.SUCCEEDED: set(),
        JobState.FAILED: set(),
        JobState.STOPPED: set(),
    },
)

ATTEMPT_LIFECYCLE = lifecycle(
    "attempt",
    AttemptState,
    {
        AttemptState.ADMITTED: {AttemptState.STARTING, AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.ENDED},
        AttemptState.STARTING: {AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.ENDED},
        AttemptState.RUNNING: {AttemptState.STOPPING, AttemptState.ENDED},
        AttemptState.STOPPING: {AttemptState.ENDED},
        AttemptState.ENDED: set(),
    },
)

TASK_LIFECYCLE = lifecycle(
    "task",
    TaskState,
    {
        TaskState.PENDING: {TaskState.RUNNING, TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED},
        TaskState.RUNNING: {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED},
        TaskState.SUCCEEDED: set(),
        TaskState.FAILED: set(),
        TaskState.STOPPED: set(),
    },
)

# Who moves a job along each edge, for docs/job-lifecycle.md. A test compares the keys with the table.
JOB_DRIVERS: dict[tuple[JobState, JobState], str] = {
    (JobState.QUEUED, JobState.ADMITTED): "the scheduler, with a reservation and a new attempt",
    (JobState.QUEUED, JobState.RUNNING): "an array's first child that left the queue (parents only)",
    (JobState.QUEUED, JobState.STOPPED): "a stop before the start; a dependency that can no longer be met",
    (JobState.QUEUED, JobState.FAILED): "an image that could not be built; an array's children (parents)",
    (JobState.QUEUED, JobState.SUCCEEDED): "an array whose children all succeeded between two looks (parents only)",
    (JobState.ADMITTED, JobState.STARTING): "the engine, which accepted the attempt",
    (JobState.ADMITTED, JobState.RUNNING): "an observation that overtook the answer to the launch",
    (JobState.ADMITTED, JobState.STOPPING): "a stop, preemption or deadline",
    (JobState.ADMITTED, JobState.QUEUED): "the retry policy, after a failed launch",
    (JobState.ADMITTED, JobState.SUCCEEDED): "an observation of a very short job",
    (JobState.ADMITTED, JobState.FAILED): "a launch that cannot succeed",
    (JobState.ADMITTED, JobState.STOPPED): "a stop before anything was launched",
    (JobState.STARTING, JobState.RUNNING): "an observation that all tasks run",
    (JobState.STARTING, JobState.STOPPING): "a stop, preemption, deadline or the start timeout",
    (JobState.STARTING, JobState.QUEUED): "the retry policy",
    (JobState.STARTING, JobState.SUCCEEDED): "an observation of a short job",
    (JobState.STARTING, JobState.FAILED): "the completion policy, with no retry left",
    (JobState.STARTING, JobState.STOPPED): "an observation that nothing runs any more after a stop",
    (JobState.RUNNING, JobState.STOPPING): "a stop, preemption, deadline, or the completion policy while other tasks run",
    (JobState.RUNNING, JobState.QUEUED): "the retry policy",
    (JobState.RUNNING, JobState.SUCCEEDED): "the completion policy",
    (JobState.RUNNING, JobState.FAILED): "the completion policy, with no retry left",
    (JobState.RUNNING, JobState.STOPPED): "an observation that nothing runs any more after a stop; an array's children (parents)",
    (JobState.STOPPING, JobState.QUEUED): "the engine's confirmation of a preemption, or of a stop before a retry",
    (JobState.STOPPING, JobState.SUCCEEDED): "the engine's confirmation, when the job had succeeded",
    (JobState.STOPPING, JobState.FAILED): "the engine's confirmation, when the job had failed or its time was over",
    (JobState.STOPPING, JobState.STOPPED): "the engine's confirmation of a stop",
}
