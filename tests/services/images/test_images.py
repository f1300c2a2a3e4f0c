"""The catalogue and its builds: built once per tenant, sealed, found by name, never another tenant's."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from activity.models import AuditEvent, Event
from clusters.engines.interface import ImageKind
from images.lifecycle import ImageState
from images.models import BuildRequest, Image
from images.selectors import image_refs, image_states
from images.services import (
    NewImage,
    build_again,
    build_finished,
    build_plan,
    build_started,
    create_image,
    delete_image,
    ensure_host_image,
    pending_builds,
    remove_unused_images,
    resolve_image,
    resolved_images,
)
from images.services.builds import NotBuilt
from images.services.catalogue import ImageExists
from kernel.errors import Conflict, InvalidInput
from kernel.ids import new_id
from reconciling.models import Transition
from tests.factories.images import (
    a_manifest,
    fill_environment,
    make_image,
    make_ready_image,
    make_registry_image,
    request_of,
)
from tests.factories.tenants import SYSTEM, make_tenant, now

pytestmark = pytest.mark.database

DIGEST = "sha256:" + "a" * 64


def state_of(image: Image) -> str:
    return Image.objects.get(id=image.id).state


def test_the_host_is_in_every_catalogue_once():
    ensure_host_image(now=now())
    assert Image.objects.filter(name="host").count() == 1
    found = resolve_image(tenant_id=make_tenant().pk, text="")
    assert (found.name, found.kind, found.is_ready) == ("host", ImageKind.HOST, True)


def test_an_environment_is_built_once_and_then_ready():
    tenant = make_tenant()
    image = make_image(tenant, requirements="numpy\n")
    assert image.state == ImageState.QUEUED
    (build,) = [build for build in pending_builds(10) if build.tenant_id == tenant.pk]
    assert (build.image_name, build.digest) == ("env", image.digest)
    job_id = new_id()
    assert build_started(build.id, job_id=job_id, now=now())
    assert not build_started(build.id, job_id=new_id(), now=now())
    assert state_of(image) == ImageState.BUILDING
    fill_environment(image)
    assert build_finished(build.id, succeeded=True, reason="", now=now())
    assert not build_finished(build.id, succeeded=False, reason="late", now=now())
    image.refresh_from_db()
    assert (image.state, image.build_job_id, image.size_bytes) == (ImageState.READY, job_id, 1234)
    assert image.packages == [{"name": "numpy", "version": "2.4.6"}]
    assert not [build for build in pending_builds(10) if build.tenant_id == tenant.pk]
    steps = Transition.objects.filter(subject_id=image.id).order_by("id").values_list("to_state", flat=True)
    assert list(steps) == ["building", "ready"]
    assert Event.objects.filter(subject_id=image.id, kind="image.ready").count() == 1


def test_what_a_build_left_is_sealed():
    image = make_ready_image(make_tenant())
    place = Path(image.location)
    assert (place / "bin/python").stat().st_mode & 0o222 == 0
    assert place.stat().st_mode & 0o222 == 0
    if os.geteuid() == 0:
        assert (place / "bin/python").stat().st_uid == 0


def test_the_same_environment_is_ready_at_once_and_shares_its_place():
    tenant = make_tenant()
    first = make_ready_image(tenant, "one", requirements="numpy\nscipy\n")
    second = make_image(tenant, "two", requirements="scipy\nnumpy   # the same\n")
    assert (second.state, second.location, second.packages) == (ImageState.READY, first.location, first.packages)
    assert BuildRequest.objects.filter(tenant=tenant).count() == 1


def test_two_images_of_one_environment_wait_for_one_build():
    tenant = make_tenant()
    first, second = make_image(tenant, "one"), make_image(tenant, "two")
    request_id = request_of(first)
    build_started(request_id, job_id=(job_id := new_id()), now=now())
    third = make_image(tenant, "three")
    assert (third.state, third.build_job_id) == (ImageState.BUILDING, job_id)
    fill_environment(first)
    build_finished(request_id, succeeded=True, reason="", now=now())
    assert [state_of(image) for image in (first, second, third)] == [ImageState.READY] * 3
    assert BuildRequest.objects.filter(tenant=tenant).count() == 1


def test_caches_are_per_tenant():
    mine, theirs = make_tenant(), make_tenant()
    first = make_ready_image(mine)
    second = make_image(theirs)
    assert second.state == ImageState.QUEUED
    assert (first.digest, first.location) != (second.digest, second.location)
    assert first.digest == second.digest
    assert str(theirs.number) in second.location


def test_a_failed_build_says_why_and_may_be_tried_again():
    image = make_image(make_tenant())
    build_finished(request_of(image), succeeded=False, reason="No matching distribution found for numpyy", now=now())
    image.refresh_from_db()
    assert (image.state, image.error) == (ImageState.FAILED, "No matching distribution found for numpyy")
    with pytest.raises(InvalidInput, match="numpyy"):
        resolve_image(tenant_id=image.tenant_id, text="env")
    request = build_again(actor=SYSTEM, image=image, now=now())
    assert (state_of(image), Image.objects.get(id=image.id).error) == (ImageState.QUEUED, "")
    assert request_of(image) == request.id
    with pytest.raises(Conflict):
        build_again(actor=SYSTEM, image=Image.objects.get(id=image.id), now=now())


@pytest.mark.parametrize(
    "manifest", ["", "{", "[]", "null", '{"packages": [1]}', '{"packages": null}', "[" * 100_000, '{"packages": [{"name": "x"}]}']
)
def test_a_job_that_left_no_complete_environment_is_a_failed_build(manifest):
    image = make_image(make_tenant())
    request_id = request_of(image)
    build_started(request_id, job_id=new_id(), now=now())
    fill_environment(image, manifest)
    build_finished(request_id, succeeded=True, reason="", now=now())
    assert state_of(image) == ImageState.FAILED
    assert not Path(image.location).exists()  # Else the next build could not remove what is sealed.


def test_a_job_that_left_nothing_at_all_is_a_failed_build():
    image = make_image(make_tenant())
    build_finished(request_of(image), succeeded=True, reason="", now=now())
    assert state_of(image) == ImageState.FAILED


def test_a_manifest_is_a_tenants_text():
    image = make_image(make_tenant())
    request_id = request_of(image)
    packages = [{"name": "a\x00\n" + "x" * 250, "version": {"a": 1}}] * 10_100
    hostile = a_manifest(size_bytes=-5, python="3\x00\x1b[31m", packages=packages)
    fill_environment(image, hostile)
    build_finished(request_id, succeeded=True, reason="", now=now())
    image.refresh_from_db()
    assert (image.state, image.size_bytes, image.python) == (ImageState.READY, None, "3[31m")
    assert len(image.packages) == 10_000
    assert "\x00" not in image.packages[0]["name"]


def test_a_link_instead_of_the_manifest_leads_nowhere(tmp_path):
    image = make_image(make_tenant())
    request_id = request_of(image)
    place = fill_environment(image)
    (tmp_path / "secret.json").write_text('{"packages": [{"name": "canary", "version": "1"}]}')
    (place / "berth-image.json").unlink()
    os.symlink(tmp_path / "secret.json", place / "berth-image.json")
    build_finished(request_id, succeeded=True, reason="", now=now())
    image.refresh_from_db()
    assert (image.state, image.packages) == (ImageState.FAILED, [])


def test_the_plan_of_a_build_prepares_its_place():
    tenant = make_tenant()
    image = make_image(tenant)
    request_id = request_of(image)
    plan = build_plan(request_id)
    assert build_plan(request_id) == plan
    assert (plan.request_id, plan.location) == (request_id, image.location)
    assert Path(image.location).is_dir()
    assert plan.files["requirements.txt"] == ("numpy\n",)
    if os.geteuid() == 0:
        assert Path(image.location).stat().st_uid != 0


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "a:b", "a@b", "-a", "host", "x" * 64])
def test_a_name_that_cannot_be_one_is_refused(name):
    with pytest.raises(InvalidInput) as caught:
        make_image(make_tenant(), name)
    assert caught.value.fields[0].path == "/name"


def test_all_mistakes_are_told_at_once():
    new = NewImage(name="Bad", kind="python", requirements="-e .\n/etc", reference="x")
    with pytest.raises(InvalidInput) as caught:
        create_image(actor=SYSTEM, tenant_id=make_tenant().pk, new=new, now=now())
    assert [field.path for field in caught.value.fields] == ["/name", "/reference", "/requirements/1", "/requirements/2"]


def test_a_taken_name_is_refused():
    tenant = make_tenant()
    make_image(tenant, "env")
    with pytest.raises(ImageExists):
        make_registry_image(tenant, "env")
    make_image(make_tenant(), "env")


def test_a_registry_reference_is_pinned_by_its_digest_only():
    tenant = make_tenant()
    loose = make_registry_image(tenant, "loose", "train:1.2")
    pinned = make_registry_image(tenant, "pinned", f"registry.example.org/train@{DIGEST}")
    assert (loose.reference, loose.digest, loose.state) == ("docker.io/library/train:1.2", "", ImageState.READY)
    assert pinned.digest == DIGEST
    found = resolve_image(tenant_id=tenant.pk, text="pinned")
    assert (found.kind, found.location, found.is_pinned) == (ImageKind.REGISTRY, pinned.reference, True)
    assert not resolve_image(tenant_id=tenant.pk, text="loose").is_pinned
    with pytest.raises(NotBuilt):
        build_again(actor=SYSTEM, image=loose, now=now())


def test_a_spec_names_an_image_of_the_tenant_of_all_or_of_a_registry():
    tenant, other = make_tenant(), make_tenant()
    mine, shared = make_ready_image(tenant, "mine"), make_registry_image(None, "shared")
    make_image(other, "theirs")
    assert resolve_image(tenant_id=tenant.pk, text="mine").id == mine.id
    assert resolve_image(tenant_id=tenant.pk, text=str(mine.id)).id == mine.id
    assert resolve_image(tenant_id=tenant.pk, text="shared").id == shared.id
    free = resolve_image(tenant_id=tenant.pk, text="team/train:1")
    assert (free.id, free.kind, free.name) == (None, ImageKind.REGISTRY, "docker.io/team/train:1")
    for text in ("theirs", "absent", "a/b c", "train:bad tag"):
        with pytest.raises(InvalidInput) as caught:
            resolve_image(tenant_id=tenant.pk, text=text)
        assert caught.value.fields[0].path == "/image"
    with pytest.raises(InvalidInput) as caught:
        resolve_image(tenant_id=tenant.pk, text="mien")
    assert "'mine'" in caught.value.hint


def test_a_tenants_own_name_hides_a_shared_one():
    tenant = make_tenant()
    make_registry_image(None, "train")
    mine = make_registry_image(tenant, "train")
    assert resolve_image(tenant_id=tenant.pk, text="train").id == mine.id


def test_jobs_see_images_as_they_are_now():
    image = make_image(make_tenant())
    assert image_states([image.id]) == {image.id: ("python", False)}
    build_started(request_of(image), job_id=new_id(), now=now())
    fill_environment(image)
    build_finished(BuildRequest.objects.get(image=image).id, succeeded=True, reason="", now=now())
    assert image_states([image.id]) == {image.id: ("python", True)}
    delete_image(actor=SYSTEM, image=image, now=now())
    assert image_refs([image.id])[image.id].location == image.location
    assert resolved_images([new_id()]) == {}


def test_an_environment_stays_as_long_as_anybody_needs_it():
    tenant = make_tenant()
    first = make_ready_image(tenant, "one")
    two = make_image(tenant, "two")
    later = now() + timedelta(days=1)
    delete_image(actor=SYSTEM, image=first, now=now())
    assert remove_unused_images(now=later, in_use=()) == 0
    assert Path(first.location).exists()
    delete_image(actor=SYSTEM, image=two, now=now())
    assert remove_unused_images(now=later, in_use={first.location}) == 0
    assert Path(first.location).exists()
    assert remove_unused_images(now=now(), in_use=()) == 0
    assert remove_unused_images(now=later, in_use=()) == 1
    assert not Path(first.location).exists()
    assert remove_unused_images(now=later, in_use=()) == 0


def test_an_environment_that_was_removed_is_built_anew():
    tenant = make_tenant()
    image = make_ready_image(tenant, "one")
    delete_image(actor=SYSTEM, image=image, now=now())
    remove_unused_images(now=now() + timedelta(days=1), in_use=())
    again = make_image(tenant, "one")
    assert (again.state, again.location) == (ImageState.QUEUED, image.location)


def test_the_host_image_cannot_be_deleted():
    with pytest.raises(Conflict):
        delete_image(actor=SYSTEM, image=Image.objects.get(name="host"), now=now())


def test_every_accepted_change_is_audited_once():
    image = make_image(make_tenant())
    delete_image(actor=SYSTEM, image=image, now=now())
    verbs = AuditEvent.objects.filter(target_id=str(image.id)).order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["image.create", "image.delete"]
