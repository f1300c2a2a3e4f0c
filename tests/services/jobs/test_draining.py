"""A drain while jobs are being placed: what comes to run on the machine is told to go, or does not start there at all."""

from __future__ import annotations

import uuid
from functools import partial

import pytest
from django.db import connection, transaction

from clusters.engines.fake import Script
from clusters.models import Node
from clusters.services import cordon_node, uncordon_node
from jobs.lifecycle.reasons import explain
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, AttemptState
from jobs.loading.around import look_around
from jobs.loading.rows import load_pending
from jobs.models import Attempt, Job, Task
from jobs.reconcile import launch
from jobs.reconcile.admit import Admission, TaskPlacement, admit
from jobs.services.draining import drain_node
from kernel.resources import Resources
from reconciling.models import Transition
from tests.builders.quay import Quay
from tests.builders.threads import together
from tests.factories.clusters import node_facts
from tests.factories.tenants import make_cast

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

ENDLESS = Script(duration_seconds=10_000)
SMALL = Resources(cpu_millis=100, memory_bytes=2**20, gpu_millis=0)
ROUNDS = 6


@pytest.fixture
def quay() -> Quay:
    return Quay(make_cast(), nodes=[node_facts("node-1", cores=64), node_facts("node-2", cores=64)])


def submit(quay: Quay, number: int) -> list[Job]:
    spec = {"script": ENDLESS, "resources": {"cpu": "100m", "memory": "1Mi"}}
    return [quay.submit(f"job-{place}", **spec) for place in range(number)]


def decisions(quay: Quay, *nodes: str) -> list[Admission]:
    """What a pass decided for all that waits, with a task on each of these nodes; it is not written yet."""
    pool = look_around(quay.now, {}).pools[0]
    each = [TaskPlacement("worker", index, node, SMALL) for index, node in enumerate(nodes)]
    return [Admission(row.id, pool, SMALL, tuple(each)) for row in load_pending({})]


def write(quay: Quay, decided: list[Admission]) -> dict[uuid.UUID, uuid.UUID]:
    return admit(decided, {row.id: row for row in load_pending({})}, {}, now=quay.now)


def drain(quay: Quay, node: str) -> None:
    drain_node(actor=quay.cast.otto.actor, node_id=Node.objects.get(name=node).pk, now=quay.now)


def staying_on(node: str) -> int:
    """How many attempts go on there that nobody told to go."""
    staying = [state for state in ATTEMPT_LIFECYCLE.live_states if state != AttemptState.STOPPING]
    return Task.objects.filter(node_name=node, attempt__state__in=staying).count()


@pytest.mark.capability("111", "A machine that is being emptied gets nothing new, whatever was decided before")
def test_a_start_that_was_decided_before_a_drain_and_is_written_after_it_does_not_happen(quay: Quay) -> None:
    [job] = submit(quay, 1)
    decided = decisions(quay, "node-2", "node-1")
    drain(quay, "node-1")

    assert write(quay, decided) == {}

    assert quay.state(job) == "queued"
    assert not Attempt.objects.exists()
    assert write(quay, decisions(quay, "node-2", "node-2")).keys() == {job.id}, "other machines are there for it"


def test_a_start_on_a_machine_that_was_taken_back_meanwhile_happens(quay: Quay) -> None:
    [job] = submit(quay, 1)
    decided = decisions(quay, "node-1")
    node = Node.objects.get(name="node-1")
    cordon_node(actor=quay.cast.otto.actor, node_id=node.pk, now=quay.now)
    uncordon_node(actor=quay.cast.otto.actor, node_id=node.pk, now=quay.now)

    assert write(quay, decided).keys() == {job.id}


def test_a_start_that_lost_to_a_cordon_is_decided_again_also_when_all_jobs_are_read_anew(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = submit(quay, 1)
    with monkeypatch.context() as cordoned:
        cordoned.setattr("jobs.reconcile.admit.cordoned_of", set)  # Both machines, between the decision and its writing.
        quay.schedule()
    assert quay.state(job) == "queued"
    quay.driver.changes.full_load_at = 0.0  # Nothing about the job has changed since.
    quay.schedule()
    assert quay.state(job) == "admitted"


@pytest.mark.capability("111", "A machine that is being emptied gets nothing new, whatever was decided before")
def test_a_drain_and_the_starts_of_the_same_moment_leave_nothing_on_the_machine(quay: Quay) -> None:
    for _ in range(ROUNDS):
        submit(quay, 5)
        decided = decisions(quay, "node-1")
        together(*[partial(write, quay, [decision]) for decision in decided], partial(drain, quay, "node-1"))
        assert staying_on("node-1") == 0
        uncordon_node(actor=quay.cast.otto.actor, node_id=Node.objects.get(name="node-1").pk, now=quay.now)


def test_a_drain_and_the_launches_of_the_same_moment_leave_nothing_on_the_machine(quay: Quay) -> None:
    for _ in range(ROUNDS):
        submit(quay, 5)
        write(quay, decisions(quay, "node-1"))
        together(partial(launch.launch, quay.cluster.pk), partial(drain, quay, "node-1"))
        assert staying_on("node-1") == 0
        uncordon_node(actor=quay.cast.otto.actor, node_id=Node.objects.get(name="node-1").pk, now=quay.now)


def test_reports_of_a_cluster_about_its_nodes_do_not_wait_for_starts(quay: Quay) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    submit(quay, 1)
    with transaction.atomic():
        assert write(quay, decisions(quay, "node-1"))
        together(lambda: Node.objects.filter(name="node-1").update(ready=True))


def test_a_job_that_had_to_leave_an_emptied_machine_says_so_and_not_that_others_came_first(quay: Quay) -> None:
    [job] = submit(quay, 1)
    quay.turn(2)
    (task,) = quay.tasks(job)
    drain(quay, task.node_name)
    quay.turn(2)
    quay.pass_time(60)
    quay.turn(2)

    again = Transition.objects.filter(subject_id=job.id, to_state="queued").latest("id")
    assert again.reason == "retrying"
    said = explain(again.reason, again.detail)
    assert (
        said.text == f"Attempt 1 ended because node {task.node_name} was drained; the next one starts as soon as there is room."
    )
    assert f"节点 {task.node_name} 已排空" in explain(again.reason, again.detail, "zh").text
    assert quay.tasks(job)[-1].node_name != task.node_name
