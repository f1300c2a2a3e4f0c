"""A container image that needs a newer driver than any machine has is refused when the job is submitted, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from clusters.engines.interface import Abilities, ImageKind, ObservedNode
from clusters.placement import GPU_CUDA, GPU_DRIVER
from clusters.services import record_inventory
from images import registry as registries
from jobs.models import Job
from kernel import config
from tests.builders.quay import Quay
from tests.builders.registry import Member, RealRegistry, registry
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

NEEDS = "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471"


@pytest.fixture(scope="module")
def place() -> Iterator[RealRegistry]:
    with registry() as found:
        yield found


@pytest.fixture
def image(place: RealRegistry) -> Iterator[str]:
    """An image that needs CUDA 12.4."""
    before = config.current()
    config.replace(replace(before, registry_plain_hosts=place.host, registry_seconds=5.0))
    registries.forget()
    place.push("team/cuda:1", [[Member("hello", b"hello\n")]], env=["PATH=/bin", NEEDS])
    yield f"{place.host}/team/cuda:1"
    config.replace(before)
    registries.forget()


@pytest.fixture
def quay(cast: Cast) -> Quay:
    return Quay(cast, nodes=[gpu_node("node-1", "12.2", "545.23.08"), gpu_node("node-2", "12.1", "530.30.02")])


def gpu_node(name: str, cuda: str, driver: str) -> ObservedNode:
    return node_facts(name, gpus=4, labels={GPU_CUDA: cuda, GPU_DRIVER: driver})


def observe(quay: Quay, *nodes: ObservedNode) -> None:
    abilities = Abilities(image_kinds=frozenset(ImageKind), shares_gpus=True)
    record_inventory(
        quay.cluster.pk, replace(quay.engine.inventory(), nodes=nodes or tuple(quay.nodes), abilities=abilities), quay.now
    )


def submit(api: Any, quay: Quay, image: str, language: str = "en", **spec: Any) -> Any:
    body = {"tenant": quay.cast.tenant.slug, "spec": {"name": "train", "image": image, "command": ["true"], **spec}}
    return api(quay.cast.bob).post("/api/v1/jobs", body, format="json", HTTP_ACCEPT_LANGUAGE=language)


@pytest.mark.capability(
    "28", "A GPU job is refused where every driver is older than the CUDA that its image needs, with both versions"
)
def test_an_image_newer_than_every_driver_is_refused_with_both_versions(api: Any, quay: Quay, image: str) -> None:
    observe(quay)
    answer = submit(api, quay, image, resources={"gpu": 1})
    assert answer.status_code == 422, answer.content
    [field] = answer.json()["fields"]
    assert (field["path"], field["code"]) == ("/image", "cuda_driver_mismatch")
    for word in (image, "CUDA 12.4", "545.23.08 (CUDA 12.2)", "530.30.02 (CUDA 12.1)", "2 machines"):
        assert word in field["message"]
    assert "CUDA 12.2 or older" in field["hint"]
    assert "NVIDIA_DISABLE_REQUIRE" in field["hint"]
    assert not Job.objects.exists()


def test_the_refusal_is_said_in_chinese(api: Any, quay: Quay, image: str) -> None:
    observe(quay)
    [field] = submit(api, quay, image, "zh-CN", resources={"gpu": 1}).json()["fields"]
    assert "需要支持 CUDA 12.4 或更新版本的驱动" in field["message"]
    assert "请运维人员升级驱动" in field["hint"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"resources": {"gpu": 1}, "env": {"NVIDIA_DISABLE_REQUIRE": "true"}},
        {"resources": {"gpu": 1}, "env": {"NVIDIA_DISABLE_REQUIRE": "1"}},
    ],
)
def test_a_job_without_gpus_or_with_libraries_of_its_own_is_accepted(
    api: Any, quay: Quay, image: str, spec: dict[str, Any]
) -> None:
    observe(quay)
    assert submit(api, quay, image, **spec).status_code == 201


@pytest.mark.parametrize(("cuda", "driver"), [("12.4", "550.54.15"), ("13.0", "580.95.05"), ("", "")])
def test_one_machine_that_has_it_or_is_not_known_is_enough(api: Any, quay: Quay, image: str, cuda: str, driver: str) -> None:
    observe(quay)
    assert submit(api, quay, image, resources={"gpu": 1}).status_code == 422
    observe(quay, *quay.nodes, gpu_node("node-3", cuda, driver))
    assert submit(api, quay, image, resources={"gpu": 1}).status_code == 201, "as soon as it is there"


def test_a_machine_that_is_too_small_or_elsewhere_does_not_count(api: Any, quay: Quay, image: str) -> None:
    small = node_facts("node-3", cores=4, gpus=4, labels={GPU_CUDA: "13.0", GPU_DRIVER: "580.95.05"})
    observe(quay, *quay.nodes, small)
    assert submit(api, quay, image, resources={"gpu": 1}).status_code == 201
    [field] = submit(api, quay, image, resources={"gpu": 1, "cpu": 6}).json()["fields"]
    assert field["code"] == "cuda_driver_mismatch"
    [field] = submit(api, quay, image, resources={"gpu": 1}, pool=quay.pool.name).json()["fields"]
    assert field["code"] == "cuda_driver_mismatch"
