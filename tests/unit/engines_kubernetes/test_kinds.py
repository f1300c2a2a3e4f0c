"""Kinds of objects beside plain pods, as whole documents: `expected/KIND.yaml`, scripts by names in brackets."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from clusters.engines.interface import CheckpointDir, CheckpointRef
from clusters.engines.kubernetes import gang, manifests
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import KUEUE, VOLCANO, Gang
from clusters.engines.kubernetes.kind import SELECT_SCRIPT, CannotRender
from clusters.engines.kubernetes.kinds import KINDS
from tests.unit.engines_kubernetes import kinds_scenes, samples
from tests.unit.engines_kubernetes.samples import ATTEMPT, CONFIG, JOB, NAMESPACE

EXPECTED = Path(__file__).parent / "expected"
FOLDERS = "BERTH_TEST_CRDS"  # Folders of CustomResourceDefinitions of the projects themselves, apart by colons.
POD_GROUP = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
SCHEDULERS = (Gang(), Gang(VOLCANO, "research"), Gang(KUEUE, "berth"))
NAME = f"b-{ATTEMPT}"
SHELLS = [shell for shell in (["dash"], ["bash"], ["busybox", "sh"]) if shutil.which(shell[0])]


@pytest.mark.parametrize("name", KINDS)
def test_the_documents_are_these(name: str) -> None:
    expected = list(yaml.safe_load_all((EXPECTED / f"{name}.yaml").read_text()))
    assert kinds_scenes.documents(KINDS[name]) == expected


@pytest.mark.parametrize("ask", SCHEDULERS, ids=lambda ask: ask.scheduler or "none")
@pytest.mark.parametrize("name", KINDS)
def test_the_projects_own_definitions_know_every_field(name: str, ask: Gang) -> None:
    kind = KINDS[name]
    resources = {(item.api_version, item.kind): item for item in (*kind.resources, POD_GROUP)}
    try:
        documents = kinds_scenes.documents(kind, ask)
    except CannotRender:
        assert (name, ask.scheduler) in {("volcanojob", KUEUE), ("framework", KUEUE)}
        return
    for document in documents:
        schema = schema_of(resources[document["apiVersion"], document["kind"]])
        problems = [f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(schema).iter_errors(document)]
        assert problems == []


def test_a_field_that_a_definition_does_not_know_is_a_mistake() -> None:
    inner = {"type": "object", "properties": {"template": {"type": "object", "properties": {"metadata": {"type": "object"}}}}}
    schema = strict({"type": "object", "properties": {"spec": inner, "free": {"type": "object", "additionalProperties": {}}}})
    document = {"spec": {"template": {"metadata": {"labels": {}}}}, "free": {"any": 1}}
    (error,) = Draft202012Validator(schema).iter_errors(document)
    assert error.json_path == "$.spec.template.metadata"


@pytest.mark.parametrize("name", KINDS)
def test_every_pod_has_the_attempts_labels_waits_for_the_engine_and_is_restricted(name: str) -> None:
    found = list(templates_in(kinds_scenes.documents(KINDS[name])))
    assert found
    for template in found:
        assert template["metadata"]["labels"]["berth.dev/attempt"] == str(ATTEMPT)
        assert template["metadata"]["labels"]["berth.dev/kind"] == "task"
        assert template["metadata"]["finalizers"] == ["berth.dev/observed"]
        assert template["spec"]["schedulingGates"] == [{"name": "berth.dev/released"}]
        assert template["spec"]["restartPolicy"] == "Never"
        assert template["spec"]["automountServiceAccountToken"] is False
        assert template["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", ["jobset", "volcanojob", "framework", "trainjob"])
def test_where_a_kind_has_a_template_for_each_task_it_is_the_plain_pod(name: str) -> None:
    plan = kinds_scenes.plan(("worker", 2))
    found = list(templates_in(KINDS[name].render(plan, CONFIG, Gang())))
    for place, template in enumerate(found):
        pod = manifests.pod(plan, place, CONFIG)
        assert template["metadata"] == {key: value for key, value in pod["metadata"].items() if key not in ("name", "namespace")}
        spec = {key: value for key, value in template["spec"].items() if key != "schedulerName"}
        assert spec == pod["spec"]


# --- One template for several tasks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.parametrize(("index", "expected"), [(0, "one $HOME 'x'|unset"), (1, "|$(rm)\nline")])
def test_a_task_of_a_shared_template_has_its_own_variables_alone(shell: list[str], index: int, expected: str) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "BERTH_REPLICA": str(index),
        "BERTH_REPLICAS": "2",
        "SECOND": "of the image",
        "BERTH_AT_0_0": "one $HOME 'x'",
        "BERTH_AT_1_0": "",
        "BERTH_AT_1_1": "$(rm)\nline",
    }
    program = ["sh", "-c", 'printf %s "$FIRST|${SECOND-unset}"; env | grep -c BERTH_ >&2; exit 7']
    ended = subprocess.run(
        [*shell, "-c", SELECT_SCRIPT, "berth", "FIRST", "SECOND", "--", *program],
        env=environment, capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert (ended.stdout, ended.stderr.strip(), ended.returncode) == (expected, "0", 7)


def test_tasks_without_a_node_may_be_anywhere_in_a_shared_template() -> None:
    plan = kinds_scenes.plan(("worker", 3), nodes=False)
    (document,) = KINDS["pytorchjob"].render(plan, CONFIG, Gang())
    assert all("affinity" not in template["spec"] for template in templates_in([document]))


def test_tasks_that_differ_in_their_commands_cannot_share_a_template() -> None:
    plan = kinds_scenes.plan(("worker", 3))
    tasks = plan.workload.tasks
    other = replace(tasks[2], argv=(("other",),))
    plan = replace(plan, workload=replace(plan.workload, tasks=(*tasks[:2], other)))
    with pytest.raises(CannotRender, match="worker-2 differs from task worker-1"):
        KINDS["pytorchjob"].render(plan, CONFIG, Gang())


def test_a_checkpoint_directory_of_each_task_cannot_be_in_a_shared_template() -> None:
    plan = kinds_scenes.plan(("worker", 3))
    tasks = tuple(replace(task, env={"BERTH_CHECKPOINT_DIR": (CheckpointDir(), f"/{task.name}")}) for task in plan.workload.tasks)
    kept = CheckpointRef(JOB, "/srv/c", "ckpt", per="task")
    plan = replace(plan, workload=replace(plan.workload, tasks=tasks, checkpoint=kept))
    with pytest.raises(CannotRender):
        KINDS["pytorchjob"].render(plan, CONFIG, Gang())


def test_an_image_without_a_shell_cannot_have_variables_of_each_task_in_a_shared_template() -> None:
    plan = kinds_scenes.plan(("worker", 3), framed=False)
    with pytest.raises(CannotRender, match="/bin/sh"):
        KINDS["pytorchjob"].render(plan, CONFIG, Gang())


# --- What cannot be such an object ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "roles", "words"),
    [
        ("tfjob", (("learner", 2),), "the job has learner"),
        ("tfjob", (("chief", 1), ("master", 1)), "one chief or master"),
        ("rayjob", (("worker", 2),), "a role `head` with one replica"),
        ("rayjob", (("head", 2),), "a role `head` with one replica"),
        ("mpijob", (("launcher", 2), ("worker", 1)), "has 2 tasks"),
    ],
)
def test_roles_that_a_kind_does_not_have_are_told(name: str, roles: tuple[tuple[str, int], ...], words: str) -> None:
    with pytest.raises(CannotRender, match=words):
        KINDS[name].render(kinds_scenes.plan(*roles), CONFIG, Gang())


def test_an_mpijobs_tasks_have_no_names() -> None:
    plan = kinds_scenes.plan(("launcher", 1), ("worker", 1), hosts=("a.x", "b.x"))
    with pytest.raises(CannotRender, match="pod_addresses"):
        KINDS["mpijob"].render(plan, CONFIG, Gang())


def test_a_text_that_frameworkcontroller_would_change_is_refused() -> None:
    plan = kinds_scenes.plan(("worker", 1))
    task = replace(plan.workload.tasks[0], argv=(("echo",), ("{{FC_POD_NAME}}",)))
    plan = replace(plan, workload=replace(plan.workload, tasks=(task,)))
    with pytest.raises(CannotRender, match="FC_"):
        KINDS["framework"].render(plan, CONFIG, Gang())


@pytest.mark.parametrize(
    ("name", "roles", "expected"),
    [
        ("pytorchjob", (("worker", 3),), ("master-0", "worker-0", "worker-1")),
        ("tfjob", (("chief", 1), ("worker", 1), ("ps", 1)), ("chief-0", "worker-0", "ps-0")),
    ],
)
def test_tasks_are_known_by_the_names_that_the_operator_gives(
    name: str, roles: tuple[tuple[str, int], ...], expected: tuple[str, ...]
) -> None:
    hosts = KINDS[name].hosts
    assert hosts is not None
    found = hosts(kinds_scenes.plan(*roles).workload, NAMESPACE, CONFIG)
    assert found == tuple(f"{NAME}-{host}.{NAMESPACE}.svc.cluster.local" for host in expected)


def test_every_name_is_one_that_the_cluster_admits() -> None:
    """Labels of hosts have 63 letters, a RayJob's name 47; JobSet makes names of pods by adding numbers and five letters."""
    for kind in KINDS.values():
        for document in kinds_scenes.documents(kind):
            name = document["metadata"]["name"]
            assert len(name) <= 47
            assert len(f"{name}-task-99999-0-0-abcde") <= 63
    (framework,) = kinds_scenes.documents(KINDS["framework"])
    assert framework["metadata"]["name"].isalnum()


# --- Gangs ------------------------------------------------------------------------------------------------------------


def test_plain_pods_are_a_pod_group_of_volcano() -> None:
    plan = kinds_scenes.plan(("worker", 2))
    group, *pods = gang.pods(plan, replace(CONFIG, priority_class="low"), Gang(VOLCANO, "research"))
    assert {name: group[name] for name in ("apiVersion", "kind", "spec")} == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "spec": {
            "minMember": 2,
            "queue": "research",
            "priorityClassName": "low",
            "minResources": {"cpu": "4000m", "memory": str(2 << 30), "nvidia.com/gpu": "2"},
        },
    }
    assert (group["metadata"]["name"], group["metadata"]["namespace"]) == (NAME, NAMESPACE)
    for place, pod in enumerate(pods):
        plain = manifests.pod(plan, place, replace(CONFIG, priority_class="low"))
        plain["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = NAME
        plain["spec"]["schedulerName"] = "volcano"
        assert pod == plain


def test_plain_pods_are_a_pod_group_of_kueue_with_as_many_roles_as_the_job() -> None:
    plan = kinds_scenes.plan(("ps", 1), ("worker", 2))
    pods = gang.pods(plan, CONFIG, Gang(KUEUE, "berth"))
    for place, pod in enumerate(pods):
        plain = manifests.pod(plan, place, CONFIG)
        plain["metadata"]["labels"] |= {"kueue.x-k8s.io/queue-name": "berth", "kueue.x-k8s.io/pod-group-name": NAME}
        plain["metadata"]["annotations"] |= {
            "kueue.x-k8s.io/pod-group-total-count": "3",
            "kueue.x-k8s.io/retriable-in-group": "false",
        }
        nodes = ["node-0"] if place == 0 else ["node-1", "node-2"]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
        plain["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
        assert pod == plain


def test_a_single_pod_is_in_kueues_queue_without_a_group() -> None:
    plan = samples.plan(samples.workload())
    (pod,) = gang.pods(plan, CONFIG, Gang(KUEUE, "berth"))
    plain = manifests.pod(plan, 0, CONFIG)
    plain["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "berth"
    assert pod == plain


def test_pods_are_as_they_were_without_a_scheduler_of_the_clusters() -> None:
    plan = kinds_scenes.plan(("worker", 2))
    assert list(gang.pods(plan, CONFIG, Gang())) == [manifests.pod(plan, place, CONFIG) for place in range(2)]


@pytest.mark.parametrize("name", ["jobset", "pytorchjob", "tfjob", "mpijob", "trainjob", "rayjob"])
def test_kueue_holds_the_object_and_not_its_pods(name: str) -> None:
    *_, last = kinds_scenes.documents(KINDS[name], Gang(KUEUE, "berth"))
    assert last["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "berth"
    assert all("kueue.x-k8s.io/queue-name" not in template["metadata"]["labels"] for template in templates_in([last]))


@pytest.mark.parametrize("name", ["volcanojob", "framework"])
def test_what_kueue_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(CannotRender, match="Kueue does not hold"):
        kinds_scenes.documents(KINDS[name], Gang(KUEUE, "berth"))


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"volcanojob"}))
def test_volcano_has_one_pod_group_for_the_pods_of_an_object(name: str) -> None:
    group, *others = kinds_scenes.documents(KINDS[name], Gang(VOLCANO))
    assert (group["kind"], group["spec"]["queue"]) == ("PodGroup", "default")
    for template in templates_in(others):
        assert template["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == NAME
        assert template["spec"]["schedulerName"] == "volcano"


# --- Parts ------------------------------------------------------------------------------------------------------------


def templates_in(value: Any) -> list[Json]:
    """All pod templates in documents, in their order."""
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in templates_in(item)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
        return [value]
    return [found for item in value.values() for found in templates_in(item)]


@cache
def schema_of(resource: Resource) -> Json:
    """The definition's schema, by which a field that it does not know is a mistake: the server would drop it."""
    found = definitions().get(resource.definition)
    if found is None:
        pytest.skip(f"{FOLDERS} names no folder with the definition {resource.definition}.")
    served = next(item for item in found["spec"]["versions"] if item["name"] == resource.version)
    assert served["served"]
    schema: Json = strict(served["schema"]["openAPIV3Schema"])
    schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return schema


@cache
def definitions() -> dict[str, Json]:
    """All that the folders have, by name."""
    load = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    used = [resource.definition for kind in KINDS.values() for resource in (*kind.resources, POD_GROUP)]
    found = {}
    for folder in filter(None, os.environ.get(FOLDERS, "").split(":")):
        for path in sorted(Path(folder).rglob("*.yaml")):
            text = path.read_text()
            if any(f"name: {name}" in text for name in used):
                found |= {item["metadata"]["name"]: item for item in yaml.load_all(text, load) if item}
    return found


def strict(schema: Any) -> Any:
    """The same schema, which admits no fields but those that it names."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(item) for name, item in schema.items()}
    open_to_all = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if schema.get("type") == "object" and not open_to_all:
        found["additionalProperties"] = False
    return found
