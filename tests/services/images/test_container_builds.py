"""Container images that a job builds: asked for, planned without the tenant's account beside its text, pinned by their digest."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from activity.models import AuditEvent
from clusters.engines.interface import ImageKind
from images import builder, pinning
from images.errors import BuilderMissing, ImageAbsent, RegistryTimeout
from images.lifecycle import BuildState, ImageState
from images.models import BuildRequest, Image, RegistryAccount
from images.services import (
    NewImage,
    build_again,
    build_finished,
    build_plan,
    build_started,
    create_image,
    delete_image,
    pending_builds,
    resolve_image,
)
from images.services.accounts import set_account
from jobs.reconcile.builds import start_builds
from kernel import config
from kernel.errors import Conflict, InvalidInput
from kernel.ids import new_id
from tests.factories.tenants import SYSTEM, make_tenant, make_user, now

pytestmark = pytest.mark.database

HOST = "registry.example.org"
REFERENCE = f"{HOST}/vision/train:1"
DIGEST = "sha256:" + "b" * 64
CANARY = "password-canary-9931"
FILE = f"FROM {HOST}/vision/base:1\nRUN true\n"


def make(tenant, name: str = "train", **more) -> Image:
    new = NewImage(name=name, kind="registry", **{"reference": REFERENCE, "containerfile": FILE, **more})
    return create_image(actor=SYSTEM, tenant_id=tenant.pk, new=new, now=now())


def request_of(image: Image) -> BuildRequest:
    return BuildRequest.objects.filter(image=image).latest("id")


def started(image: Image) -> BuildRequest:
    """Its build has a job, which has been launched: the place of what it leaves is there."""
    request = request_of(image)
    assert build_started(request.id, job_id=new_id(), now=now())
    build_plan(request.id)
    return request


def leave(request: BuildRequest, name: str, content: object) -> None:
    place = Path(request.location)
    (place / name).write_text(content if isinstance(content, str) else json.dumps(content))


def built(image: Image, digest: str = DIGEST) -> Image:
    request = started(image)
    leave(request, builder.MANIFEST, {"format": 1, "digest": digest, "size_bytes": 77, "packages": []})
    assert build_finished(request.id, succeeded=True, reason="", now=now())
    image.refresh_from_db()
    return image


def fields_of(new: NewImage, tenant_id=None) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        create_image(actor=SYSTEM, tenant_id=tenant_id, new=new, now=now())
    return [(field.path, field.code) for field in caught.value.fields]


def test_a_container_image_waits_for_its_build_and_is_then_pinned_to_what_was_pushed():
    tenant = make_tenant()
    image = make(tenant)
    assert (image.state, image.digest) == (ImageState.QUEUED, "")
    (build,) = [build for build in pending_builds(100) if build.tenant_id == tenant.pk]
    assert build.roles == ("build", "transfer")
    waiting = resolve_image(tenant_id=tenant.pk, text="train")
    assert not waiting.is_ready
    assert pinning.pin(tenant_id=tenant.pk, image=waiting) == (waiting, None), "nothing is asked for before it is there"
    request = request_of(image)
    built(image)
    assert (image.state, image.digest, image.size_bytes, image.reference) == (ImageState.READY, DIGEST, 77, REFERENCE)
    found = resolve_image(tenant_id=tenant.pk, text="train")
    assert (found.kind, found.digest, found.location) == (ImageKind.REGISTRY, DIGEST, f"{REFERENCE}@{DIGEST}")
    assert not Path(request.location).exists(), "it is at its registry: nothing of it stays here"
    assert not build_finished(request.id, succeeded=False, reason="late", now=now())


def test_the_report_of_a_build_that_was_cut_off_removes_what_was_left():
    image = make(make_tenant())
    request = started(image)
    leave(request, builder.MANIFEST, {"digest": DIGEST, "packages": []})
    build_finished(request.id, succeeded=True, reason="", now=now())
    build_plan(request.id)  # As if the place were there still.
    assert Path(request.location).exists()
    build_finished(request.id, succeeded=True, reason="", now=now())
    assert not Path(request.location).exists()


@pytest.mark.parametrize("digest", ["", "latest", "sha256:xyz", f"{DIGEST}\n@", "../" * 30])
def test_a_build_that_names_no_content_is_a_failed_one(digest):
    image = make(make_tenant())
    request = started(image)
    leave(request, builder.MANIFEST, {"digest": digest, "packages": []})
    build_finished(request.id, succeeded=True, reason="", now=now())
    image.refresh_from_db()
    assert (image.state, image.digest) == (ImageState.FAILED, "")


def test_a_failed_build_shows_its_last_lines_without_what_a_screen_would_obey():
    image = make(make_tenant())
    request = started(image)
    leave(request, builder.REASON, "STEP 2/2: RUN nosuch\n\x1b[2Jnosuch: not found\n")
    build_finished(request.id, succeeded=False, reason="exit 1", now=now())
    image.refresh_from_db()
    assert (image.state, image.error) == (ImageState.FAILED, "STEP 2/2: RUN nosuch\n[2Jnosuch: not found")
    with pytest.raises(InvalidInput, match="nosuch: not found"):
        resolve_image(tenant_id=image.tenant_id, text="train")


def test_a_container_image_is_built_again_while_it_is_there_and_not_while_it_is_built():
    image = built(make(make_tenant()))
    again = build_again(actor=SYSTEM, image=image, now=now())
    assert again.state == BuildState.QUEUED
    with pytest.raises(Conflict):
        build_again(actor=SYSTEM, image=image, now=now())
    newer = "sha256:" + "c" * 64
    built(image, newer)
    assert image.digest == newer
    assert BuildRequest.objects.filter(image=image).count() == 2


def test_two_images_that_ask_for_the_same_are_built_apart():
    tenant = make_tenant()
    first, second = make(tenant, "one"), make(tenant, "two")
    assert request_of(first).id != request_of(second).id
    built(first)
    second.refresh_from_db()
    assert second.state == ImageState.QUEUED


def test_the_account_goes_to_the_task_that_runs_nothing_of_the_tenants():
    tenant = make_tenant()
    set_account(actor=SYSTEM, tenant_id=tenant.pk, host=HOST, username="robot", password=CANARY, now=now())
    image = make(tenant)
    plan = build_plan(request_of(image).id)
    building, carrying = plan.task_of("build"), plan.task_of("transfer")
    assert (building.builds_image, carrying.builds_image) == (True, False)
    assert building.secret_env == {}
    (document,) = carrying.secret_env.values()
    auth = json.loads(document)["auths"][HOST]["auth"]
    assert base64.b64decode(auth).decode() == f"robot:{CANARY}"
    assert CANARY not in repr(plan)
    assert auth not in repr((plan.files, building, carrying.argv, carrying.env))
    Path(plan.location).rmdir()


def test_another_tenants_account_is_not_used():
    theirs = make_tenant()
    set_account(actor=SYSTEM, tenant_id=theirs.pk, host=HOST, username="robot", password=CANARY, now=now())
    plan = build_plan(request_of(make(make_tenant())).id)
    assert plan.task_of("transfer").secret_env == {}
    assert RegistryAccount.objects.filter(tenant_id=theirs.pk).count() == 1


def test_requirements_are_installed_into_a_base():
    image = make(make_tenant(), containerfile="", base="python:3.12", requirements="numpy\n")
    assert (image.base, image.requirements) == ("docker.io/library/python:3.12", "numpy\n")
    plan = build_plan(request_of(image).id)
    assert plan.files["requirements.txt"] == ("numpy\n",)
    assert "FROM docker.io/library/python:3.12\n" in plan.files["Containerfile"][0]


def test_settings_of_pip_are_a_secret_of_the_build_and_no_file_of_this_host(monkeypatch):
    monkeypatch.setitem(os.environ, "PIP_INDEX_URL", "https://index.example.org/simple")
    monkeypatch.setitem(os.environ, "PIP_CERT", "/etc/ours.pem")
    plan = build_plan(request_of(make(make_tenant())).id)
    text = plan.files["pip.conf"][0]
    assert "index-url = https://index.example.org/simple\n" in text
    assert "ours.pem" not in text
    assert "index.example.org" not in plan.files["Containerfile"][0]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"base": "python:3.12", "requirements": "numpy"}, [("/containerfile", "one_of")]),
        ({"containerfile": "", "requirements": "numpy"}, [("/containerfile", "one_of"), ("/requirements", "not_for_kind")]),
        ({"containerfile": "", "context_sha256": "a" * 64}, [("/containerfile", "one_of")]),
        ({"containerfile": "", "base": "../x", "requirements": "numpy"}, [("/base", "bad_reference")]),
        ({"containerfile": "", "base": "a", "requirements": "-e ."}, [("/requirements/1", "bad_requirement")]),
        ({"reference": f"{REFERENCE}@{DIGEST}"}, [("/reference", "pinned")]),
        ({"reference": ""}, [("/reference", "bad_reference")]),
        ({"containerfile": "RUN true"}, [("/containerfile", "required")]),
    ],
)
def test_what_cannot_be_built_is_told_at_once(more, expected):
    new = NewImage(name="x", kind="registry", **{"reference": REFERENCE, "containerfile": FILE, **more})
    assert fields_of(new, make_tenant().pk) == expected


def test_other_kinds_have_none_of_it_and_images_for_all_are_not_built():
    new = NewImage(name="x", kind="python", requirements="numpy", containerfile=FILE, base="a", context_sha256="c" * 64)
    assert fields_of(new, make_tenant().pk) == [
        (f"/{name}", "not_for_kind") for name in ("containerfile", "context_sha256", "base")
    ]
    shared = NewImage(name="x", kind="registry", reference=REFERENCE, containerfile=FILE)
    assert fields_of(shared) == [("/kind", "not_shared")]


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.setattr(pinning, "missing_packages", tuple)


@pytest.mark.usefixtures("programs")
def test_a_base_that_the_registry_refuses_is_refused_and_one_that_does_not_answer_is_not(monkeypatch):
    before = config.current()
    config.replace(replace(before, registry_seconds=5.0))
    new = NewImage(name="x", kind="registry", reference=REFERENCE, containerfile=FILE)
    try:
        monkeypatch.setattr(pinning, "look_up", raising(ImageAbsent("It has none.")))
        with pytest.raises(InvalidInput) as caught:
            pinning.check_container_build(tenant_id=make_tenant().pk, new=new)
        assert [(field.path, field.code) for field in caught.value.fields] == [("/containerfile", "image_absent")]
        assert f"{HOST}/vision/base:1: It has none." in str(caught.value.fields[0].message)
        with pytest.raises(InvalidInput) as caught:
            pinning.check_container_build(tenant_id=make_tenant().pk, new=replace(new, name="Bad name", context_sha256=""))
        assert [(field.path, field.code) for field in caught.value.fields] == [
            ("/name", "bad_name"), ("/containerfile", "image_absent"),
        ], "all at once"  # fmt: skip
        monkeypatch.setattr(pinning, "look_up", raising(RegistryTimeout("Silence.")))
        pinning.check_container_build(tenant_id=make_tenant().pk, new=new)
    finally:
        config.replace(before)


@pytest.mark.usefixtures("programs")
def test_a_registry_that_is_not_allowed_is_refused_as_target(configure):
    configure(registry_hosts="other.example.org", registry_seconds=0.0)
    with pytest.raises(InvalidInput) as caught:
        pinning.check_container_build(
            tenant_id=make_tenant().pk, new=NewImage(name="x", kind="registry", reference=REFERENCE, containerfile=FILE)
        )
    assert [(field.path, field.code) for field in caught.value.fields] == [("/reference", "registry_refused")]


def test_a_machine_without_the_programs_says_so_before_anything_is_asked_for(monkeypatch):
    monkeypatch.setattr(builder.shutil, "which", lambda program: None)
    with pytest.raises(BuilderMissing, match="buildah, skopeo, bubblewrap") as caught:
        pinning.check_container_build(
            tenant_id=make_tenant().pk, new=NewImage(name="x", kind="registry", reference=REFERENCE, containerfile=FILE)
        )
    assert "apt-get install buildah skopeo" in caught.value.hint


def test_a_build_whose_folder_was_never_uploaded_says_so_and_what_to_do():
    tenant = make_tenant()
    image = make(tenant, context_sha256="c" * 64)
    BuildRequest.objects.filter(image=image).update(requested_by_id=make_user("bea").pk)
    start_builds()
    image.refresh_from_db()
    assert image.state == ImageState.FAILED
    assert image.error.startswith("The tenant has no code with the digest 'ccc")
    assert "Upload the archive first" in image.error


def test_deleting_an_image_that_is_being_built_leaves_the_build_to_its_end():
    image = make(make_tenant())
    request = started(image)
    delete_image(actor=SYSTEM, image=image, now=now())
    leave(request, builder.MANIFEST, {"digest": DIGEST, "packages": []})
    assert build_finished(request.id, succeeded=True, reason="", now=now())
    assert not Path(request.location).exists()


def test_the_audit_tells_what_is_built_and_no_text_of_it():
    tenant = make_tenant()
    make(tenant, containerfile=f"{FILE}RUN echo canary-of-the-text\n")
    after = AuditEvent.objects.filter(tenant_id=tenant.pk, verb="image.create").latest("id").after
    assert (after["reference"], after["state"]) == (REFERENCE, "queued")
    assert "canary" not in json.dumps(after)


def raising(error: Exception):
    def raises(**_):
        raise error

    return raises
