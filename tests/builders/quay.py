"""A whole platform in one thread, on a clock that tests turn: the real scheduler and reconcilers, a pretended cluster.

`quay.submit(...)` stores a job as the API does, `quay.turn()` lets every part of the platform act once, `quay.pass_time(5)`
moves the clock. Nothing sleeps and nothing runs at the same time as the test.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from activity.sequencer import sequence
from clusters.engines.fake import FakeEngine, Script, script_from_labels
from clusters.engines.interface import ObservedNode, TaskWorkload, Workload
from clusters.models import Cluster, Pool
from clusters.services import record_inventory
from jobs.models import Attempt, Job, Task
from jobs.reconcile import builds, checkpoints, finish, launch, poll, stopping
from jobs.reconcile.driver import SchedulerDriver
from jobs.services.stop import stop_jobs
from jobs.services.submit import prepare, submit
from reconciling.models import Transition
from tests.factories.clusters import make_cluster, node_facts, use_engine
from tests.factories.tenants import Cast, Person

TURNS_MAX = 200


class Quay:
    """The platform of one test. Bob submits unless somebody else is named."""

    def __init__(self, cast: Cast, *, nodes: list[ObservedNode] | None = None) -> None:
        self.cast = cast
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.scripts: dict[str, Script] = {}
        self.nodes = nodes or [node_facts("node-1", cores=8)]
        self.engine = FakeEngine(clock=lambda: self.now, script_for=self._script, nodes=self.nodes)
        use_engine(self.engine)
        self.cluster: Cluster = make_cluster("harbour")
        record_inventory(self.cluster.pk, self.engine.inventory(), self.now)
        self.pool = Pool.objects.get(cluster=self.cluster)
        self.driver = SchedulerDriver()

    def _script(self, workload: Workload, task: TaskWorkload) -> Script:
        """A script by task (`train.worker-0`), by job (`train`), or by the job's labels."""
        return self.scripts.get(
            f"{workload.name}.{task.name}", self.scripts.get(workload.name) or script_from_labels(workload, task)
        )

    # --- Acting ------------------------------------------------------------------------------------------------------

    def submit(self, name: str = "train", *, by: Person | None = None, script: Script | None = None, **spec: Any) -> Job:
        """Store one job, or the parent of an array. A command is given if the spec has none."""
        person = by or self.cast.bob
        if script is not None:
            self.scripts[name] = script
        document = {"name": name, **({} if "roles" in spec else {"command": "true"}), **spec}
        submission = prepare(actor=person.actor, tenant=None, document=document)
        return self.job(submit([submission], actor=person.actor, now=self.now)[0])

    def stop(self, job: Job, *, by: Person | None = None, grace_seconds: float | None = None) -> None:
        stop_jobs([self.job(job.id)], actor=(by or self.cast.bob).actor, grace_seconds=grace_seconds, now=self.now)

    def turn(self, times: int = 1) -> None:
        """Let scheduler, builds, launch, poll, stop, finish and checkpoints act once each, in the order of a job's life."""
        for _ in range(times):
            self.schedule()
            builds.start_builds()
            launch.launch(self.cluster.pk)
            poll.poll(self.cluster.pk)
            stopping.stop(self.cluster.pk)
            poll.poll(self.cluster.pk)
            finish.finish(self.cluster.pk)
            checkpoints.look()
            self.now += timedelta(milliseconds=20)

    def schedule(self) -> None:
        sequence(self.now)
        self.driver.run(now=self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def settle(self, *, step_seconds: float = 1.0) -> None:
        """Go on until nothing waits or runs any more."""
        for _ in range(TURNS_MAX):
            self.turn()
            unfinished = Attempt.objects.filter(forgotten=False).exists()
            if not unfinished and not Job.objects.exclude(state__in=["succeeded", "failed", "stopped"]).exists():
                return
            self.pass_time(step_seconds)
        raise AssertionError("the platform does not come to rest")

    # --- Looking -----------------------------------------------------------------------------------------------------

    def job(self, job_id: uuid.UUID) -> Job:
        return Job.objects.select_related("tenant", "queue", "user").get(id=job_id)

    def state(self, job: Job) -> str:
        return Job.objects.values_list("state", flat=True).get(id=job.id)

    def reason(self, job: Job) -> str:
        return Job.objects.values_list("reason_code", flat=True).get(id=job.id)

    def attempts(self, job: Job) -> list[Attempt]:
        return list(Attempt.objects.filter(job_id=job.id).order_by("number"))

    def tasks(self, job: Job) -> list[Task]:
        return list(Task.objects.filter(job_id=job.id).order_by("attempt__number", "role", "index"))

    def path(self, job: Job) -> list[str]:
        """The states of a job in order."""
        rows = Transition.objects.filter(subject_kind="job", subject_id=job.id).order_by("id")
        return list(rows.values_list("to_state", flat=True))
