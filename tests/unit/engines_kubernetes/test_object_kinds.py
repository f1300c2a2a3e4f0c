"""Attempts whose pods a controller makes: which of its pods are the tasks, and that no other ever runs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from clusters.engines.interface import (
    EngineUnreachable,
    Ensured,
    ExitReason,
    Forgotten,
    GiveUp,
    Gone,
    ImageKind,
    ImageRef,
    Retry,
    Stop,
    StopCause,
    Stopping,
    TaskState,
)
from clusters.engines.kubernetes import checks, choices, names
from clusters.engines.kubernetes.api import Api, ApiRefused, Json
from clusters.engines.kubernetes.cache import Cache
from clusters.engines.kubernetes.config import OBJECT_KINDS, ConfigInvalid, KubernetesConfig, read_config
from clusters.engines.kubernetes.engine import KubernetesEngine
from clusters.engines.kubernetes.execution import ExecStops
from clusters.engines.kubernetes.kind import CannotRender
from clusters.engines.kubernetes.kinds import KINDS
from clusters.engines.kubernetes.permissions import needed
from clusters.engines.kubernetes.pods import Pods
from clusters.engines.settings import Outcome
from tests.unit.engines_kubernetes import samples
from tests.unit.engines_kubernetes.samples import ATTEMPT, CLUSTER, CONFIG
from tests.unit.engines_kubernetes.stored_objects import StoredObjects

VOLCANO = ("jobs.batch.volcano.sh/v1alpha1", "podgroups.scheduling.volcano.sh/v1beta1")
PARENT = f"b-{ATTEMPT}"
CONFIG_OF_JOBS = replace(CONFIG, object_kind="volcanojob")


def no_websocket(path: str) -> None:
    raise EngineUnreachable("no exec here")


class Scene:
    """An engine on stored objects, and a controller that does what it is told."""

    def __init__(self, config: KubernetesConfig, *definitions: str) -> None:
        self.server = StoredObjects(*definitions)
        self.engine = KubernetesEngine(config, Api(self.server, rate=1e6, burst=1e6, sleep=lambda _: None), no_websocket)
        self.workload = samples.workload(2)

    def ensure(self) -> Any:
        (answer,) = self.engine.ensure([self.workload])
        return answer

    def make_pods(self, *places: int, suffix: str = "0") -> None:
        """As Volcano does: without the finalizers of the template."""
        job = self.server.find("jobs", PARENT)
        assert job is not None
        for place in places:
            task = job["spec"]["tasks"][place]
            metadata = {key: value for key, value in task["template"]["metadata"].items() if key != "finalizers"}
            template = {"spec": task["template"]["spec"], "metadata": {**metadata, "namespace": job["metadata"]["namespace"]}}
            self.server.put_pod(template, f"{PARENT}-{task['name']}-{suffix}")

    def run(self, place: int, **state: Any) -> None:
        container = {"name": "task", "state": state or {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
        self.pod(place)["spec"]["nodeName"] = "node-1"
        self.server.set_status(self.name(place), phase="Running", podIP=f"10.0.0.{place}", containerStatuses=[container])

    def name(self, place: int, suffix: str = "0") -> str:
        return f"{PARENT}-task-{place}-{suffix}"

    def pod(self, place: int, suffix: str = "0") -> Json:
        found = self.server.find("pods", self.name(place, suffix))
        assert found is not None
        return found

    def gated(self) -> list[str]:
        return [key[2] for key, pod in self.server.objects.items() if key[0] == "pods" and pod["spec"]["schedulingGates"]]

    def states(self) -> list[TaskState]:
        (item,) = self.engine.observe(None).items
        return [task.state for task in item.tasks]


@pytest.fixture(autouse=True)
def _whole_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look makes a whole list; after one that took long, here where the machine stood still, the next would make none."""
    monkeypatch.setattr(Cache, "is_list_quick", lambda cache: True)


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene(CONFIG_OF_JOBS, *VOLCANO)
    yield made
    made.engine.close()


def stop(grace_seconds: float = 60.0) -> Stop:
    return Stop(ATTEMPT, grace_seconds, StopCause.USER)


def test_an_attempt_is_pending_until_the_controller_has_made_all_pods_and_none_runs_before(scene: Scene) -> None:
    assert scene.ensure() == Ensured(ATTEMPT, created=True)
    assert scene.states() == [TaskState.PENDING, TaskState.PENDING]
    scene.make_pods(0)
    assert scene.states() == [TaskState.PENDING, TaskState.PENDING]
    assert scene.gated() == [scene.name(0)]
    scene.make_pods(1)
    scene.states()
    assert scene.gated() == []
    assert scene.pod(0)["metadata"]["finalizers"] == ["berth.dev/observed"]
    scene.run(0)
    scene.run(1)
    assert scene.states() == [TaskState.RUNNING, TaskState.RUNNING]
    assert scene.server.find("configmaps", f"b-{ATTEMPT}-start")["data"]["address-1"] == "10.0.0.1"  # type: ignore[index]


def test_a_pod_that_the_controller_makes_in_place_of_one_never_runs_and_is_not_the_task(scene: Scene) -> None:
    scene.ensure()
    scene.make_pods(0, 1)
    scene.states()
    scene.run(0)
    scene.run(1, terminated={"exitCode": 3, "finishedAt": "2026-01-01T00:00:09Z"})
    scene.make_pods(1, suffix="1")
    (item,) = scene.engine.observe(None).items
    assert [(task.state, task.exit and task.exit.code) for task in item.tasks] == [
        (TaskState.RUNNING, None),
        (TaskState.ENDED, 3),
    ]
    assert scene.gated() == [scene.name(1, "1")]


def test_a_pod_of_the_same_name_made_anew_is_gone_as_the_task(scene: Scene) -> None:
    scene.ensure()
    scene.make_pods(0, 1)
    scene.states()
    scene.run(0)
    del scene.server.objects["pods", "berth-t-blue", scene.name(1)]
    scene.make_pods(1)
    assert scene.states() == [TaskState.RUNNING, TaskState.GONE]
    assert scene.gated() == [scene.name(1)]


def test_an_attempt_whose_object_was_removed_before_it_made_pods_is_gone(scene: Scene) -> None:
    scene.ensure()
    del scene.server.objects["jobs", "berth-t-blue", PARENT]
    assert scene.states() == [TaskState.GONE, TaskState.GONE]
    scene.ensure()
    assert scene.server.find("jobs", PARENT) is None


def test_a_stop_before_the_pods_run_removes_the_object_at_once(scene: Scene) -> None:
    scene.ensure()
    scene.make_pods(0)
    assert scene.engine.stop([stop()]) == [Gone(ATTEMPT)]
    assert scene.server.find("jobs", PARENT) is None
    assert isinstance(scene.ensure(), GiveUp)


def test_a_stop_ends_the_pods_and_the_object_goes_when_the_attempt_is_forgotten(scene: Scene) -> None:
    scene.ensure()
    scene.make_pods(0, 1)
    scene.states()
    scene.run(0)
    scene.run(1)
    assert scene.engine.stop([stop()]) == [Stopping(ATTEMPT)]
    assert all(scene.pod(place)["metadata"]["deletionTimestamp"] for place in (0, 1))
    (answer,) = scene.engine.forget([ATTEMPT])
    assert isinstance(answer, Retry)
    for place in (0, 1):
        scene.run(place, terminated={"exitCode": 143, "finishedAt": "2099-01-01T00:00:00Z"})
    (item,) = scene.engine.observe(None).items
    assert [task.exit and task.exit.reason for task in item.tasks] == [ExitReason.STOPPED, ExitReason.STOPPED]
    assert scene.engine.forget([ATTEMPT]) == [Forgotten(ATTEMPT)]
    assert [key for key in scene.server.objects if key[0] in ("jobs", "pods")] == []


def test_a_stop_whose_caller_died_before_it_was_told_is_carried_through_by_looking(scene: Scene) -> None:
    def die(path: str) -> None:
        raise KeyboardInterrupt

    scene.ensure()
    scene.make_pods(0, 1)
    scene.states()
    scene.run(0)
    scene.run(1)
    scene.engine._stopper._stops = ExecStops(die)
    with pytest.raises(KeyboardInterrupt):
        scene.engine.stop([stop()])
    scene.states()
    assert not any(scene.pod(place)["metadata"].get("deletionTimestamp") for place in (0, 1)), (
        "its caller may be about to tell it"
    )
    gate = scene.server.find("configmaps", names.gate_name(ATTEMPT))
    assert gate is not None
    record = json.loads(gate["data"]["attempt.json"])
    record["stop"]["asked_at"] = "2026-01-01T00:00:00+00:00"
    changed = {**gate, "data": {"attempt.json": json.dumps(record)}}
    scene.server._store(("configmaps", gate["metadata"]["namespace"], gate["metadata"]["name"]), changed)
    scene.states()
    assert all(scene.pod(place)["metadata"]["deletionTimestamp"] for place in (0, 1))


def test_pods_and_object_of_a_caller_that_slept_past_the_end_are_swept_up(scene: Scene) -> None:
    scene.ensure()
    job = scene.server.find("jobs", PARENT)
    assert job is not None
    scene.engine.stop([stop()])
    scene.server.objects["jobs", "berth-t-blue", PARENT] = job
    scene.make_pods(0, 1)
    assert scene.engine.observe(None).items == ()
    assert [key for key in scene.server.objects if key[0] in ("jobs", "pods")] == []


def count_calls(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every call about one object from now on, as method and plural; lists and watches are none."""
    calls: list[tuple[str, str]] = []

    def change(method: str, key: tuple[str, str, str], body: Any, kind: str) -> Any:
        calls.append((method, key[0]))
        return answer(method, key, body, kind)

    answer = scene.server._change
    monkeypatch.setattr(scene.server, "_change", change)
    return calls


def test_pods_that_a_controller_keeps_are_asked_about_no_more(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    scene.ensure()
    scene.make_pods(0, 1)
    for place in (0, 1):  # As Kueue does, which takes it away once it is back.
        scene.pod(place)["metadata"]["finalizers"] = ["berth.dev/observed", "kueue.x-k8s.io/managed"]
    assert scene.engine.stop([stop()]) == [Gone(ATTEMPT)]
    calls = count_calls(scene, monkeypatch)
    assert scene.engine.observe(None).items == ()
    assert calls == []
    assert scene.pod(0)["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]


def test_a_full_queue_is_asked_about_in_turn(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    workloads = [replace(scene.workload, attempt_id=uuid.uuid4()) for _ in range(20)]
    scene.engine.ensure(workloads)
    calls = count_calls(scene, monkeypatch)
    assert len(scene.engine.observe(None).items) == 20
    assert calls == [("GET", "jobs")] * 3
    for key in [key for key in scene.server.objects if key[0] == "jobs"]:
        del scene.server.objects[key]
    for _ in range(7):
        seen = scene.engine.observe(None)
    assert sum(item.tasks[0].state is TaskState.GONE for item in seen.items) == 17  # Three were asked about a moment ago.


def test_logs_are_awaited_until_the_pods_are_known(scene: Scene) -> None:
    scene.ensure()
    chunks = scene.engine.logs(ATTEMPT, scene.workload.tasks[0].name, "stdout", None)  # type: ignore[arg-type]
    assert not chunks.complete


def test_a_foreign_object_with_our_name_is_neither_adopted_nor_removed(scene: Scene) -> None:
    foreign = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"uid": "other", "resourceVersion": "1"}}
    scene.server.objects["jobs", "berth-t-blue", PARENT] = foreign
    answer = scene.ensure()
    assert (type(answer), answer.code) == (GiveUp, "foreign_object")
    assert scene.server.find("jobs", PARENT) == foreign


# --- What the cluster lacks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"object_kind": "volcanojob"}, "no jobs.batch.volcano.sh in version v1alpha1: install Volcano, or change object_kind"),
        (
            {"gang_scheduler": "volcano"},
            "no podgroups.scheduling.volcano.sh in version v1beta1: install Volcano, or change gang_",
        ),
        (
            {"gang_scheduler": "kueue", "scheduler_queue": "a"},
            "no localqueues.kueue.x-k8s.io in version v1beta1: install Kueue, or change gang_scheduler",
        ),
    ],
)
def test_a_kind_that_the_cluster_lacks_is_told_with_what_brings_it(changes: dict[str, str], words: str) -> None:
    scene = Scene(replace(CONFIG, **changes))
    answer = scene.ensure()
    assert (type(answer), answer.code) == (GiveUp, "engine_gave_up")
    assert words in answer.detail
    assert words in scene.engine.inventory().note
    (finding,) = checks._definitions(scene.engine.api, scene.engine.config)
    assert (finding.check, finding.outcome) == ("objects", Outcome.FAILED)
    program = words.partition("install ")[2].partition(",")[0]
    assert program in finding.hint.en
    assert program in finding.hint.zh
    scene.engine.close()


def test_a_kind_that_the_cluster_has_is_told_too(scene: Scene) -> None:
    (finding,) = checks._definitions(scene.engine.api, scene.engine.config)
    assert finding.outcome is Outcome.OK
    assert scene.engine.inventory().note == "The cluster has no nodes."


def test_a_workload_that_cannot_be_such_an_object_is_given_up(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    def refuse(*_: object) -> tuple[Json, ...]:
        raise CannotRender("no head")

    kinds = {**KINDS, "volcanojob": replace(KINDS["volcanojob"], render=refuse)}
    monkeypatch.setattr(choices, "KINDS", kinds)
    answer = scene.ensure()
    assert (type(answer), answer.code, answer.detail) == (GiveUp, "workload_invalid", "no head")
    assert isinstance(scene.ensure(), GiveUp)


# --- Plain pods by a scheduler of the cluster's -----------------------------------------------------------------------


def test_plain_pods_have_a_group_of_volcano_that_goes_with_them() -> None:
    scene = Scene(replace(CONFIG, gang_scheduler="volcano", scheduler_queue="research"), *VOLCANO)
    assert scene.ensure() == Ensured(ATTEMPT, created=True)
    group = scene.server.find("podgroups", PARENT)
    assert group is not None
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (2, "research")
    assert scene.gated() == []
    assert scene.engine.stop([stop()]) == [Stopping(ATTEMPT)]
    for place in (0, 1):
        ended = [{"name": "task", "state": {"terminated": {"exitCode": 143, "finishedAt": "2099-01-01T00:00:00Z"}}}]
        scene.server.set_status(f"b-{ATTEMPT}-{place}", phase="Failed", containerStatuses=ended)
    assert scene.engine.forget([ATTEMPT]) == [Forgotten(ATTEMPT)]
    assert [key for key in scene.server.objects if key[0] in ("podgroups", "pods")] == []
    scene.engine.close()


def test_plain_pods_are_let_go_by_us_and_held_by_kueue_in_the_tenants_queue() -> None:
    config = replace(CONFIG, gang_scheduler="kueue", scheduler_queue="gpus")
    scene = Scene(config, "localqueues.kueue.x-k8s.io/v1beta1")
    admit = scene.server.admit

    def hold(document: Json) -> Json:
        if document.get("kind") == "Pod":
            document["spec"]["schedulingGates"].append({"name": "kueue.x-k8s.io/admission"})
        return admit(document)

    scene.server.admit = hold  # type: ignore[method-assign]
    scene.ensure()
    queue = scene.server.find("localqueues", "berth-gpus")
    assert queue is not None
    assert (queue["metadata"]["namespace"], queue["spec"]) == ("berth-t-blue", {"clusterQueue": "gpus"})
    for place in (0, 1):
        pod = scene.server.find("pods", f"b-{ATTEMPT}-{place}")
        assert pod is not None
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "berth-gpus"
        assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert scene.states() == [TaskState.PENDING, TaskState.PENDING]
    scene.engine.close()


def test_pods_whose_caller_died_before_it_let_them_go_are_let_go_by_the_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(CONFIG)

    def die(pods: Pods, namespace: str, name: str, uid: str = "") -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Pods, "release", die)
        with pytest.raises(Died):
            scene.ensure()
    assert scene.states() == [TaskState.PENDING, TaskState.PENDING]
    assert len(scene.gated()) == 2, "its caller may be about to do it"
    scene.states()
    assert scene.gated() == []
    scene.engine.close()


# --- What is changed while attempts live ------------------------------------------------------------------------------


def let_engine_be(scene: Scene, **changes: Any) -> None:
    """The next call is of an engine with other settings, as after `berth clusters change`."""
    scene.engine.close()
    config = replace(scene.engine.config, **changes)
    scene.engine = KubernetesEngine(config, Api(scene.server, rate=1e6, burst=1e6, sleep=lambda _: None), no_websocket)


class Died(BaseException):
    """What a process leaves half done."""


def die_before(scene: Scene, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call ends before it makes an object of this kind."""

    def admit(document: Json) -> Json:
        if document["kind"] == kind:
            raise Died
        return document

    with monkeypatch.context() as patch:
        patch.setattr(scene.server, "admit", admit)
        with pytest.raises(Died):
            scene.ensure()


def test_another_cluster_queue_of_kueues_gets_a_queue_of_its_own_in_each_namespace() -> None:
    scene = Scene(replace(CONFIG, gang_scheduler="kueue", scheduler_queue="gpus"), "localqueues.kueue.x-k8s.io/v1beta1")
    scene.ensure()
    let_engine_be(scene, scheduler_queue="more.gpus")
    scene.engine.ensure([replace(scene.workload, attempt_id=uuid.uuid4())])
    queues = {key[2]: item["spec"]["clusterQueue"] for key, item in scene.server.objects.items() if key[0] == "localqueues"}
    assert queues == {"berth-gpus": "gpus", "berth-more.gpus": "more.gpus"}  # Kueue lets none point to another.
    long = names.local_queue(".".join(["a" * 60] * 4))
    assert len(long) < 63
    assert names.is_dns_label(long)
    scene.engine.close()


def test_what_was_begun_under_other_settings_is_gone_on_with_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(replace(CONFIG, gang_scheduler="volcano", scheduler_queue="research"), *VOLCANO)
    die_before(scene, "Pod", monkeypatch)
    let_engine_be(scene, gang_scheduler="berth", scheduler_queue="")
    assert scene.ensure() == Ensured(ATTEMPT, created=False)
    pods = [item for key, item in scene.server.objects.items() if key[0] == "pods"]
    assert [pod["spec"].get("schedulerName") for pod in pods] == ["volcano", "volcano"]
    scene.engine.close()


def test_an_object_that_was_begun_is_made_although_other_settings_exclude_it(
    monkeypatch: pytest.MonkeyPatch, scene: Scene
) -> None:
    die_before(scene, "Job", monkeypatch)
    scene.server.definitions.add("localqueues.kueue.x-k8s.io/v1beta1")
    let_engine_be(scene, object_kind="pod", gang_scheduler="kueue", scheduler_queue="gpus")
    assert scene.ensure() == Ensured(ATTEMPT, created=False)
    assert scene.server.find("jobs", PARENT) is not None


def test_a_kind_that_went_with_its_controller_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    die_before(scene, "Job", monkeypatch)
    scene.server.definitions.clear()
    let_engine_be(scene, object_kind="pod")
    answer = scene.ensure()
    assert (type(answer), answer.code) == (GiveUp, "engine_gave_up")
    assert "install Volcano, or change object_kind" in answer.detail


@pytest.mark.parametrize("changes", [{"default_image": ""}, {"gang_scheduler": "kueue", "scheduler_queue": "gpus"}])
def test_what_was_started_is_not_given_up_because_settings_changed(changes: dict[str, str]) -> None:
    scene = Scene(CONFIG)
    scene.workload = replace(scene.workload, image=ImageRef(ImageKind.HOST, ""))
    assert scene.ensure() == Ensured(ATTEMPT, created=True)
    let_engine_be(scene, **changes)
    assert scene.ensure() == Ensured(ATTEMPT, created=False)
    assert scene.gated() == []
    scene.engine.close()


def test_what_was_only_begun_is_buried_where_settings_exclude_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(CONFIG)
    scene.workload = replace(scene.workload, image=ImageRef(ImageKind.HOST, ""))
    die_before(scene, "Pod", monkeypatch)
    let_engine_be(scene, default_image="")
    assert scene.ensure().code == "workload_invalid"
    let_engine_be(scene, default_image="base:1")
    assert scene.ensure().code == "attempt_forgotten"
    assert [key for key in scene.server.objects if key[0] == "pods"] == []
    scene.engine.close()


def test_an_object_of_a_caller_that_slept_is_swept_up_whatever_is_chosen_now(scene: Scene) -> None:
    scene.ensure()
    job = scene.server.find("jobs", PARENT)
    assert job is not None
    scene.engine.stop([stop()])
    let_engine_be(scene, object_kind="pod")
    scene.server.objects["jobs", "berth-t-blue", PARENT] = job
    scene.make_pods(0, 1)
    assert scene.engine.observe(None).items == ()
    assert [key for key in scene.server.objects if key[0] in ("jobs", "pods")] == []


@pytest.mark.parametrize("is_given_up", [True, False])
def test_objects_that_outlive_a_start_which_never_came_go_when_it_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, *, is_given_up: bool
) -> None:
    scene = Scene(replace(CONFIG, gang_scheduler="volcano"), *VOLCANO)
    tasks = tuple(replace(task, secret_env={"TOKEN": "canary"}) for task in scene.workload.tasks)
    scene.workload = replace(scene.workload, tasks=tasks)
    die_before(scene, "Pod", monkeypatch)
    made = {key: item for key, item in scene.server.objects.items() if key[0] in ("secrets", "podgroups", "networkpolicies")}
    assert {"secrets", "podgroups"} <= {key[0] for key in made}
    if is_given_up:  # By a call that died between the tombstone and what it was to remove then.
        scene.workload = replace(scene.workload, workdir="/away")
        assert isinstance(scene.ensure(), GiveUp)
    else:
        assert scene.engine.stop([stop()]) == [Gone(ATTEMPT)]
    scene.server.objects |= {key: item for key, item in made.items() if str(ATTEMPT) in key[2]}  # Or by one that slept.
    assert scene.engine.forget([ATTEMPT]) == [Forgotten(ATTEMPT)]
    assert [key for key in scene.server.objects if str(ATTEMPT) in key[2] and key[0] != "configmaps"] == []
    assert scene.engine.forget([ATTEMPT]) == [Forgotten(ATTEMPT)]
    scene.engine.close()


def test_a_rule_of_the_cluster_is_no_fault_of_the_job(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    def refuse(key: Any, document: Json, *, is_new: bool = False) -> Json:
        if key[0] == "jobs":
            raise ApiRefused(400, "BadRequest", 'admission webhook "validatejob.volcano.sh" denied the request: no such queue')
        return store(key, document, is_new=is_new)

    store = scene.server._store
    monkeypatch.setattr(scene.server, "_store", refuse)
    answer = scene.ensure()
    assert (type(answer), answer.code, "no such queue" in answer.detail) == (GiveUp, "engine_gave_up", True)


def test_an_object_that_the_cluster_cannot_store_is_given_up_with_its_size(scene: Scene) -> None:
    scene.workload = samples.workload(300)
    answer = scene.ensure()
    assert (type(answer), answer.code) == (GiveUp, "workload_invalid")
    assert "Job with 300 tasks would have" in answer.detail
    assert scene.server.find("jobs", PARENT) is None


def test_one_at_which_the_server_fails_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(CONFIG)
    other = replace(scene.workload, attempt_id=uuid.uuid4())

    def fail(key: Any, document: Json, *, is_new: bool = False) -> Json:
        if key[0] == "pods" and str(ATTEMPT) in key[2]:
            raise OSError("reset")
        return store(key, document, is_new=is_new)

    store = scene.server._store
    monkeypatch.setattr(scene.server, "_store", fail)
    failed, answer = scene.engine.ensure([scene.workload, other])
    assert (type(failed), failed.code) == (Retry, "engine_unreachable")  # type: ignore[union-attr]
    assert answer == Ensured(other.attempt_id, created=True)
    with pytest.raises(EngineUnreachable):
        scene.engine.ensure([scene.workload, scene.workload])
    scene.engine.close()


def test_volcanos_job_is_in_the_chosen_queue() -> None:
    scene = Scene(replace(CONFIG_OF_JOBS, scheduler_queue="research"), *VOLCANO)
    scene.ensure()
    job = scene.server.find("jobs", PARENT)
    assert job is not None
    assert job["spec"]["queue"] == "research"
    scene.engine.close()


# --- Settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"object_kind": "rayjob"}, "object_kind: must be one of pod, volcanojob"),
        ({"gang_scheduler": "yunikorn"}, "gang_scheduler: must be one of berth, volcano, kueue"),
        ({"pod_addresses": "yes"}, "pod_addresses: must be true or false"),
        ({"parallel": True}, "parallel: must not be true or false"),
        ({"gang_scheduler": "kueue"}, "scheduler_queue: must be the name of a ClusterQueue"),
        ({"gang_scheduler": "kueue", "scheduler_queue": "GPUs"}, "scheduler_queue: must be the name of a queue"),
        (
            {"gang_scheduler": "kueue", "scheduler_queue": "a", "object_kind": "volcanojob"},
            "object_kind: must be pod where gang_scheduler is kueue",
        ),
    ],
)
def test_choices_that_cannot_be_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigInvalid, match=words):
        read_config(CLUSTER, given)


def test_every_choice_is_a_kind_that_is_rendered() -> None:
    assert set(OBJECT_KINDS) - {"pod"} <= set(KINDS)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"object_kind": "volcanojob"}, [("batch.volcano.sh", "jobs", ("get", "create", "delete"))]),
        ({"gang_scheduler": "volcano"}, [("scheduling.volcano.sh", "podgroups", ("get", "create", "delete"))]),
        ({"object_kind": "volcanojob", "gang_scheduler": "volcano"}, [("batch.volcano.sh", "jobs", ("get", "create", "delete"))]),
        ({"gang_scheduler": "kueue", "scheduler_queue": "a"}, [("kueue.x-k8s.io", "localqueues", ("create", "patch"))]),
    ],
)
def test_the_account_needs_rights_on_what_is_chosen_alone(changes: dict[str, str], expected: list[Any]) -> None:
    known = set(needed(CONFIG))
    assert [
        (item.group, item.resource, item.verbs) for item in needed(replace(CONFIG, **changes)) if item not in known
    ] == expected
