"""What no machine of any reachable pool can give is refused at submission, with the field, the reason and the next step."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from clusters.engines.fake import Script
from clusters.engines.interface import Abilities, ImageKind, Places
from clusters.models import Cluster, Node
from clusters.services import edit_pool, record_inventory
from jobs.models import Job
from kernel.errors import BerthError
from storage.models import VolumeKind
from tests.builders.quay import Quay
from tests.factories.clusters import make_cluster, node_facts, use_engine
from tests.factories.storage import make_volume
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., Any]
Refusal = tuple[str, str, str]
CONTAINER = "docker.io/library/ubuntu@sha256:" + "a" * 64


@pytest.fixture
def quay(cast: Cast) -> Quay:
    """Two machines of 8 cores, 32 GiB and 4 GPUs."""
    return Quay(cast, nodes=[node_facts(name, gpus=4) for name in ("node-1", "node-2")])


def submit(client: Any, **spec: Any) -> Any:
    document = {"name": "train", "command": "true", **spec}
    return client.post("/api/v1/jobs", json.dumps({"spec": document}), content_type="application/json")


def refused(client: Any, **spec: Any) -> Refusal:
    """Path, code and hint of the only thing that is wrong."""
    answer = submit(client, **spec)
    assert answer.status_code == 422, answer.content
    [field] = answer.json()["fields"]
    return field["path"], field["code"], field["hint"]


def role(**resources: Any) -> dict[str, Any]:
    return {"resources": resources}


@pytest.mark.parametrize(
    ("spec", "path", "code"),
    [
        ({"image": CONTAINER}, "/image", "image_kind"),
        (role(rdma=True), "/roles/worker/resources/rdma", "no_rdma"),
        (role(cpu=2, cpu_exclusive=True), "/roles/worker/resources/cpu_exclusive", "exclusive_cores"),
        (role(gpu="h100:1"), "/roles/worker/resources/gpu", "gpu_model_unknown"),
        (role(memory="48Gi"), "/roles", "larger_than_pool"),
        (role(gpu=8), "/roles", "larger_than_pool"),
        (role(shm="64Gi"), "/roles/worker/resources/shm", "shm"),
        ({"placement": {"together": "rack"}, "replicas": 2}, "/placement/together", "no_place"),
        ({"placement": {"labels": {"disk": "nvme"}}}, "/placement/labels", "label"),
        ({"pool": "h900"}, "/pool", "pool_not_found"),
        ({"cluster": "elsewhere"}, "/cluster", "cluster_not_found"),
    ],
)
def test_what_no_machine_can_give_is_refused_with_the_field_and_the_next_step(
    quay: Quay, api: Api, spec: dict[str, Any], path: str, code: str
) -> None:
    found = refused(api(quay.cast.bob), **spec)
    assert found[:2] == (path, code)
    assert found[2], "the next step"
    assert not Job.objects.exists()


def test_a_part_of_a_gpu_is_refused_where_no_pool_lends_parts(quay: Quay, api: Api) -> None:
    path, code, hint = refused(api(quay.cast.bob), resources={"gpu": 0.5})
    assert (path, code) == ("/roles/worker/resources/gpu", "gpu_shares")
    assert hint
    edit_pool(actor=quay.cast.otto.actor, pool_id=quay.pool.pk, changes={"gpu_shares": True}, now=quay.now)
    assert submit(api(quay.cast.bob), resources={"gpu": 0.5}).status_code == 201


def test_machines_that_are_cordoned_tainted_or_lost_may_come_back_so_a_job_for_them_waits_and_says_so(
    quay: Quay, api: Api
) -> None:
    Node.objects.update(cordoned=True, cordoned_at=quay.now, taints={"repair": "keep-out"})
    answer = submit(api(quay.cast.bob), resources={"gpu": 4})
    assert answer.status_code == 201
    quay.turn()
    assert quay.reason(Job.objects.get()) in ("no_ready_node", "taint")


def test_a_job_for_all_gpus_of_a_machine_of_which_one_is_broken_waits_for_its_repair(cast: Cast, api: Api) -> None:
    quay = Quay(cast, nodes=[node_facts("node-1", gpus=4, broken_gpus=1)])
    assert submit(api(quay.cast.bob), resources={"gpu": 4}).status_code == 201


def test_a_job_is_accepted_as_soon_as_a_machine_that_can_run_it_is_there(quay: Quay, api: Api) -> None:
    bob = api(quay.cast.bob)
    spec = {"placement": {"labels": {"disk": "nvme"}}}
    assert refused(bob, **spec)[1] == "label"
    with_disk = node_facts("node-3", gpus=4, labels={"disk": "nvme"})
    record_inventory(quay.cluster.pk, replace(quay.engine.inventory(), nodes=(*quay.nodes, with_disk)), quay.now)
    assert submit(bob, **spec).status_code == 201


def test_containers_are_accepted_where_an_engine_says_that_it_runs_them(quay: Quay, api: Api) -> None:
    kinds = frozenset(ImageKind)
    record_inventory(quay.cluster.pk, replace(quay.engine.inventory(), abilities=Abilities(image_kinds=kinds)), quay.now)
    assert submit(api(quay.cast.bob), image=CONTAINER).status_code == 201


@pytest.mark.parametrize(
    ("able", "spec", "path", "code"),
    [
        (Abilities(lacks=("jobs.batch.volcano.sh",)), {}, "/cluster", "cluster_lacks"),
        (
            Abilities(image_kinds=frozenset(ImageKind), bare_images=("docker.io/library/",)),
            {"image": CONTAINER, "checkpoint": {"path": "kept"}},
            "/image",
            "no_shell",
        ),
    ],
)
def test_what_no_engine_can_start_or_bring_is_refused(
    quay: Quay, api: Api, able: Abilities, spec: dict[str, Any], path: str, code: str
) -> None:
    record_inventory(quay.cluster.pk, replace(quay.engine.inventory(), abilities=able), quay.now)
    found = refused(api(quay.cast.bob), **spec)
    assert found[:2] == (path, code)
    assert found[2], "the next step"


@pytest.fixture
def annex(quay: Quay) -> Cluster:
    """A cluster that mounts claims, and no directory of the platform's host."""
    other = make_cluster("annex")
    able = Abilities(places=Places(below=(), claims=True, makes_claims=True, shares=("nas",), checkpoints=False))
    record_inventory(other.pk, replace(quay.engine.inventory(), nodes=(node_facts("annex-1"),), abilities=able), quay.now)
    return other


def test_a_job_goes_to_the_cluster_of_its_claim_and_to_no_other(quay: Quay, api: Api, annex: Cluster) -> None:
    bob = api(quay.cast.bob)
    make_volume(quay.cast.tenant, "digits", kind=VolumeKind.CLAIM, cluster_id=annex.pk)
    mounts = [{"volume": "digits", "path": "/data"}]
    assert refused(bob, mounts=mounts, cluster=quay.cluster.name)[:2] == ("/mounts", "volume_place")
    assert submit(bob, mounts=mounts).status_code == 201
    quay.turn()
    job = Job.objects.get()
    assert job.attempts.get().cluster_id == annex.pk


def test_what_is_on_the_platforms_host_is_not_asked_of_another_cluster(quay: Quay, api: Api, annex: Cluster) -> None:
    bob = api(quay.cast.bob)
    make_volume(quay.cast.tenant, "local")
    mounts = [{"volume": "local", "path": "/data"}]
    assert refused(bob, mounts=mounts, cluster="annex")[:2] == ("/mounts", "volume_place")
    assert refused(bob, checkpoint={"path": "ckpt"}, cluster="annex")[:2] == ("/checkpoint", "checkpoint_place")
    both = [*mounts, {"volume": "share", "path": "/more"}]
    make_volume(quay.cast.tenant, "share", kind=VolumeKind.NFS, server="nas", export="/exports/x")
    assert refused(bob, mounts=both)[:2] == ("/mounts", "volume_place"), "no cluster has both"


def test_more_ports_than_the_machines_have_are_refused(quay: Quay, api: Api) -> None:
    record_inventory(quay.cluster.pk, replace(quay.engine.inventory(), abilities=Abilities(node_ports=4)), quay.now)
    roles = {"worker": {"command": "true", "replicas": 9, "ports": ["rpc"], "resources": {"cpu": "100m"}}}
    answer = api(quay.cast.bob).post(
        "/api/v1/jobs", json.dumps({"spec": {"name": "train", "roles": roles}}), content_type="application/json"
    )
    assert [field["code"] for field in answer.json()["fields"]] == ["ports"]


def test_a_job_that_names_a_disabled_cluster_is_refused_while_another_is_enabled(quay: Quay, api: Api) -> None:
    bob = api(quay.cast.bob)
    other = make_cluster("annex")
    record_inventory(other.pk, replace(quay.engine.inventory(), nodes=(node_facts("annex-1"),)), quay.now)
    assert submit(bob, cluster="annex").status_code == 201
    Cluster.objects.filter(pk=other.pk).update(is_enabled=False)
    assert refused(bob, cluster="annex")[:2] == ("/cluster", "cluster_disabled")
    assert submit(bob).status_code == 201


def test_an_installation_without_any_inventory_accepts_and_says_what_the_job_waits_for(cast: Cast, api: Api) -> None:
    use_engine(None)
    make_cluster("harbour")
    answer = submit(api(cast.bob), resources={"gpu": "a100:2"})
    assert answer.status_code == 201


def test_what_was_accepted_before_its_last_machine_was_removed_says_so_while_it_waits(quay: Quay, api: Api) -> None:
    with_disk = node_facts("node-3", labels={"disk": "nvme"})
    record_inventory(quay.cluster.pk, replace(quay.engine.inventory(), nodes=(*quay.nodes, with_disk)), quay.now)
    assert submit(api(quay.cast.bob), placement={"labels": {"disk": "nvme"}}).status_code == 201
    Node.objects.filter(name="node-3").delete()
    quay.driver.forget()
    quay.turn()
    assert quay.reason(Job.objects.get()) == "no_machines"


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ("H200:1", "NVIDIA H200"),
        ("h200:1", "NVIDIA H200"),
        ("nvidia-h200:1", "NVIDIA H200"),
        ("a100:1", "NVIDIA A100-SXM4-80GB"),
        ("A100-SXM4:1", "NVIDIA A100-SXM4-80GB"),
        ("rtx3090:1", "NVIDIA GeForce RTX 3090"),
    ],
)
def test_a_gpu_model_is_found_however_it_is_spelled(cast: Cast, api: Api, written: str, model: str) -> None:
    quay = Quay(cast, nodes=[node_facts("node-1", gpus=4, gpu_model=model)])
    answer = submit(api(quay.cast.bob), resources={"gpu": written})
    assert answer.status_code == 201, answer.content
    quay.turn(3)
    job = Job.objects.get()
    assert quay.state(job) in ("running", "succeeded")


@pytest.mark.parametrize("written", ["a10:1", "a100-80gb:1", "h100:1"])
def test_another_model_is_refused_with_what_there_is(cast: Cast, api: Api, written: str) -> None:
    Quay(cast, nodes=[node_facts("node-1", gpus=4, gpu_model="NVIDIA A100-SXM4-80GB")])
    answer = submit(api(cast.bob), resources={"gpu": written})
    assert answer.status_code == 422
    assert "NVIDIA A100-SXM4-80GB" in answer.json()["fields"][0]["message"]


def _random_spec(random: Random) -> dict[str, Any]:
    resources: dict[str, Any] = {"cpu": random.choice([1, 4, 8, 9]), "memory": random.choice(["1Gi", "30Gi", "40Gi"])}
    wishes: dict[str, list[Any]] = {
        "gpu": [1, 2, 4, 5, 0.5, "a100:1", "h100:1"],
        "rdma": [True],
        "cpu_exclusive": [True],
        "shm": ["1Gi", "100Gi"],
    }
    resources |= {name: random.choice(values) for name, values in wishes.items() if random.random() < 0.25}
    places: dict[str, list[Any]] = {"together": ["pack", "rack", "island"], "labels": [{"disk": "nvme"}]}
    placement = {name: random.choice(values) for name, values in places.items() if random.random() < 0.3}
    return {"resources": resources, "placement": placement, "replicas": random.choice([1, 1, 2, 4])}


def test_a_job_that_an_idle_cluster_accepts_starts_there(cast: Cast) -> None:
    random = Random(20261122)
    labels = [{"rack": "a", "disk": "nvme"}, {"rack": "a", "rdma": "yes"}, {"rack": "b", "exclusive_cores": "8"}]
    quay = Quay(cast, nodes=[node_facts(f"node-{number}", gpus=4, labels=given) for number, given in enumerate(labels)])
    accepted = 0
    for number in range(60):
        spec = _random_spec(random)
        try:
            job = quay.submit(f"train-{number}", script=Script(duration_seconds=0), **spec)
        except BerthError:
            continue
        quay.turn(2)
        assert quay.attempts(job), (quay.reason(job), spec)
        quay.settle()
        accepted += 1
    assert 5 <= accepted <= 55, "the test is of both kinds"
