"""The store of container images is shared: what one tenant asks for takes neither the turns nor the room of the others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from clusters.engines.interface import ImageKind, ImageRef
from clusters.engines.local.containers import store
from clusters.engines.local.containers.store import PULLS_MAX, Bounds, ImageStore, NotReady, ReadyImage
from clusters.registries.errors import ImageUnusable
from clusters.registries.manifests import Layer, Manifest
from clusters.registries.references import Reference
from clusters.registries.rules import Rules

GIB = 1024**3
DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def images(tmp_path: Path) -> ImageStore:
    return ImageStore(str(tmp_path / "images"), rules=Rules(), bounds=Bounds(GIB, 2 * GIB), in_use=frozenset)


def test_a_slow_registry_of_one_tenant_keeps_no_image_of_another_away(images: ImageStore, monkeypatch: Any) -> None:
    may_end, came = threading.Event(), threading.Semaphore(0)

    def pull(self: ImageStore, image: ImageRef, tenant: str) -> str:
        came.release()
        assert tenant == "other" or may_end.wait(20)
        raise ImageUnusable("tried")

    monkeypatch.setattr(ImageStore, "_pull", pull)
    try:
        for number in range(PULLS_MAX + 1):
            images.get(ImageRef(ImageKind.REGISTRY, "", f"slow.example.org/a:{number}"), "one", patient=False)
        for _ in range(store.PULLS_PER_TENANT):
            assert came.acquire(timeout=10)
        answer = images.get(ImageRef(ImageKind.REGISTRY, "", "fast.example.org/a:1"), "other")
        assert isinstance(answer, NotReady)
        assert answer.detail.endswith("tried"), "it had its turn"
    finally:
        may_end.set()


@pytest.mark.parametrize(("are_checked", "unchecked"), [(False, False), (True, True), (True, False)])
def test_an_image_of_another_tenant_is_given_to_whom_a_registry_confirms_it(
    tmp_path: Path, monkeypatch: Any, are_checked: bool, unchecked: bool
) -> None:
    """Where operators have turned the check at submission off, nobody has confirmed anything."""
    bounds = Bounds(GIB, 2 * GIB)
    images = ImageStore(str(tmp_path), rules=Rules(), bounds=bounds, in_use=frozenset, are_checked=are_checked)
    tree = Path(images._tree(DIGEST, "r.example.org"))
    (tree / "tenants").mkdir(parents=True)
    (tree / "image.json").write_text('{"env": {}}')
    Path(images._mark(DIGEST, "r.example.org", "owner")).touch()
    asked: list[str] = []

    def pull(self: ImageStore, image: ImageRef, tenant: str) -> str:
        if self is images:  # Threads of another store may not be done yet.
            asked.append(tenant)
        raise ImageUnusable("the registry refuses it")

    monkeypatch.setattr(ImageStore, "_pull", pull)
    image = ImageRef(ImageKind.REGISTRY, DIGEST, f"r.example.org/a@{DIGEST}", unchecked=unchecked)
    assert isinstance(images.get(image, "owner"), ReadyImage)
    answer = images.get(image, "other")
    assert isinstance(answer, ReadyImage) == (are_checked and not unchecked)
    assert asked == ([] if isinstance(answer, ReadyImage) else ["other"])


def test_an_image_that_says_it_is_too_large_takes_no_room(images: ImageStore, monkeypatch: Any) -> None:
    monkeypatch.setattr(ImageStore, "_make_room", lambda *_: pytest.fail("others' images are removed for it"))
    layers = (Layer(DIGEST, GIB, "application/vnd.oci.image.layer.v1.tar"),)
    manifest = Manifest(DIGEST, DIGEST, DIGEST, 1, layers)
    with pytest.raises(ImageUnusable, match="BERTH_IMAGE_BYTES_MAX"):
        images._unpack(cast("Any", None), Reference("r.example.org", "a", "1", ""), manifest)
