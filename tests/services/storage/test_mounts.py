"""What a job may mount: its tenant's volumes and granted ones; nothing else exists for it."""

from __future__ import annotations

import pytest

from clusters.engines.interface import HostDir
from kernel.errors import InvalidInput
from storage.services.mounts import MountRequest, check_mounts, resolve_mounts
from storage.services.volumes import delete_volume, grant_volume
from tests.factories.storage import make_volume
from tests.factories.tenants import SYSTEM, make_tenant, now

pytestmark = pytest.mark.database


def grant(volume, tenant, *, read_only=True):
    grant_volume(actor=SYSTEM, volume=volume, tenant_id=tenant.pk, read_only=read_only, now=now())


def codes(tenant, *mounts):
    return [(error.path, error.code) for error in check_mounts(tenant_id=tenant.pk, mounts=mounts)[1]]


def test_a_volume_is_mounted_by_name_by_id_and_by_its_full_name():
    tenant = make_tenant("vision")
    volume = make_volume(tenant, "digits")
    for text in ("digits", str(volume.id), f"{tenant.slug}/digits", "vision/digits"):
        (ref,) = resolve_mounts(tenant_id=tenant.pk, mounts=[MountRequest(text, "/data")])
        assert (ref.volume_id, ref.place, ref.target) == (volume.id, HostDir(volume.location), "/data")
        assert (ref.read_only, ref.group) == (False, volume.number)


def test_what_is_not_granted_does_not_exist():
    mine, theirs = make_tenant(), make_tenant()
    volume = make_volume(theirs, "secret")
    for text in ("secret", str(volume.id), f"{theirs.slug}/secret", f"{theirs.name}/secret"):
        with pytest.raises(InvalidInput) as caught:
            resolve_mounts(tenant_id=mine.pk, mounts=[MountRequest(text, "/data", read_only=True)])
        absent = text.replace("secret", "absent") if "secret" in text else text
        assert caught.value.fields[0].code == "not_found"
        assert theirs.name not in caught.value.detail.replace(text, "")
        assert absent


def test_a_granted_volume_needs_its_owners_name():
    mine, theirs = make_tenant(), make_tenant()
    volume = make_volume(theirs, "shared")
    grant(volume, mine)
    (ref,) = resolve_mounts(tenant_id=mine.pk, mounts=[MountRequest(f"{theirs.slug}/shared", "/data", read_only=True)])
    assert ref.read_only
    assert codes(mine, MountRequest("shared", "/data", read_only=True)) == [("/mounts/0/volume", "not_found")]


def test_writing_to_what_may_only_be_read_is_refused_not_ignored():
    mine, theirs = make_tenant(), make_tenant()
    volume = make_volume(theirs, "shared")
    own = make_volume(mine, "archive", read_only=True)
    grant(volume, mine)
    wanted = [MountRequest(str(volume.id), "/a"), MountRequest(str(own.id), "/b"), MountRequest("archive", "/c", read_only=True)]
    assert codes(mine, *wanted) == [("/mounts/0/read_only", "volume_read_only"), ("/mounts/1/read_only", "volume_read_only")]
    grant(volume, mine, read_only=False)
    assert codes(mine, MountRequest(str(volume.id), "/a")) == []


def test_all_errors_come_at_once():
    tenant = make_tenant()
    make_volume(tenant, "one")
    wanted = [MountRequest("nothing", "/a"), MountRequest("one", "/b"), MountRequest("one", "/b"), MountRequest("none", "/c")]
    assert codes(tenant, *wanted) == [
        ("/mounts/0/volume", "not_found"),
        ("/mounts/2/path", "taken"),
        ("/mounts/3/volume", "not_found"),
    ]
    assert codes(tenant, *[MountRequest("one", f"/m{number}") for number in range(40)]) == [("/mounts", "too_many")]


def test_two_owners_of_one_name_are_told_apart_by_slug():
    mine, parent = make_tenant(), make_tenant()
    first, second = make_tenant("lab"), make_tenant("lab", parent=parent)
    for owner in (first, second):
        grant(make_volume(owner, "set"), mine)
    assert codes(mine, MountRequest("lab/set", "/a", read_only=True)) == [("/mounts/0/volume", "not_found")]
    assert codes(mine, MountRequest(f"{first.slug}/set", "/a", read_only=True)) == []


def test_a_deleted_volume_is_gone_and_its_name_free():
    tenant = make_tenant()
    volume = make_volume(tenant, "old")
    delete_volume(actor=SYSTEM, volume=volume, now=now())
    assert codes(tenant, MountRequest("old", "/a")) == [("/mounts/0/volume", "not_found")]
    newer = make_volume(tenant, "old")
    assert newer.number > volume.number


def test_the_number_of_queries_does_not_depend_on_the_number_of_mounts(django_assert_num_queries):
    tenant = make_tenant()
    mounts = [MountRequest(make_volume(tenant, f"v{number}").name, f"/m{number}") for number in range(10)]
    with django_assert_num_queries(3):
        resolve_mounts(tenant_id=tenant.pk, mounts=mounts)
