"""Volumes: made with their directory, changed under a version, deleted in two steps."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from activity.models import AuditEvent
from kernel.errors import InvalidInput, NotFound, PreconditionFailed
from storage import bounds
from storage.models import Volume
from storage.services import volumes
from storage.services.volumes import NewVolume, VolumeExists, create_volume, delete_volume, update_volume
from tests.factories.storage import a_file_in, make_volume
from tests.factories.tenants import SYSTEM, make_tenant, now

pytestmark = pytest.mark.database


def test_a_volume_has_a_directory_that_the_server_chose(configure):
    volume = make_volume(make_tenant(), "data")
    place = Path(volume.location)
    assert place.is_dir()
    assert place.name == str(volume.id)
    assert place.stat().st_mode & 0o7 == 0
    if os.geteuid() == 0:
        assert place.stat().st_gid == configure().local_gid_base + volume.number


def test_numbers_are_never_used_twice():
    tenant = make_tenant()
    first = make_volume(tenant, "a")
    delete_volume(actor=SYSTEM, volume=first, now=now())
    volumes.remove_deleted_volumes(now=now() + timedelta(days=3), in_use=())
    assert make_volume(tenant, "b").number > first.number


@pytest.mark.parametrize("name", ["", "Digits", "-a", "a/b", "a b", "a" * 64, "..", "ä", "a\n"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InvalidInput) as caught:
        create_volume(actor=SYSTEM, tenant_id=make_tenant().pk, new=NewVolume(name), now=now())
    assert caught.value.fields[0].path == "/name"


def test_a_taken_name_is_refused_and_leaves_nothing_behind(data_dir):
    tenant = make_tenant()
    make_volume(tenant, "data")
    before = sorted(os.listdir(data_dir / "volumes"))
    with pytest.raises(VolumeExists):
        make_volume(tenant, "data")
    assert sorted(os.listdir(data_dir / "volumes")) == before
    make_volume(make_tenant(), "data")


def test_a_change_under_an_old_version_is_refused():
    volume = make_volume(make_tenant())
    changed = update_volume(actor=SYSTEM, volume=volume, changes={"description": "x"}, expected_version=1, now=now())
    assert (changed.version, changed.description) == (2, "x")
    with pytest.raises(PreconditionFailed):
        update_volume(actor=SYSTEM, volume=volume, changes={"description": "y"}, expected_version=1, now=now())


def test_renaming_to_a_taken_name_is_refused():
    tenant = make_tenant()
    make_volume(tenant, "a")
    volume = make_volume(tenant, "b")
    with pytest.raises(VolumeExists):
        update_volume(actor=SYSTEM, volume=volume, changes={"name": "a"}, expected_version=None, now=now())


def test_files_of_a_deleted_volume_stay_for_a_day_and_while_a_job_uses_them():
    volume = make_volume(make_tenant())
    file = a_file_in(volume, "deep/down/file", b"x")
    delete_volume(actor=SYSTEM, volume=volume, now=now())
    with pytest.raises(NotFound):
        delete_volume(actor=SYSTEM, volume=volume, now=now())
    later = now() + timedelta(days=2)
    assert volumes.remove_deleted_volumes(now=now(), in_use=()) == 0
    assert volumes.remove_deleted_volumes(now=later, in_use={volume.id}) == 0
    assert file.exists()
    assert volumes.remove_deleted_volumes(now=later, in_use=()) == 1
    assert not Path(volume.location).exists()
    assert volumes.remove_deleted_volumes(now=later, in_use=()) == 0
    assert Volume.objects.filter(id=volume.id).exists()


def test_a_volume_that_cannot_be_removed_keeps_none_behind_it(tmp_path):
    stuck, *others = [make_volume(make_tenant()) for _ in range(3)]
    for days, volume in enumerate((others[1], others[0], stuck), start=2):
        delete_volume(actor=SYSTEM, volume=volume, now=now() - timedelta(days=days))
    Volume.objects.filter(id=stuck.id).update(location=str(tmp_path))  # Not below the data directory: it is refused there.
    assert [volumes.remove_deleted_volumes(now=now(), in_use=(), limit=1) for _ in range(3)] == [1, 1, 0]
    assert tmp_path.is_dir()
    assert [Path(volume.location).exists() for volume in others] == [False, False]
    assert Volume.objects.get(id=stuck.id).removed_at is None


def test_a_tenant_has_a_bounded_number_of_volumes(monkeypatch):
    monkeypatch.setattr(bounds, "VOLUMES_MAX", 2)
    tenant = make_tenant()
    make_volume(tenant, "a")
    make_volume(tenant, "b")
    with pytest.raises(Exception, match="at most 2"):
        make_volume(tenant, "c")


def test_every_accepted_change_is_audited_once():
    volume = make_volume(make_tenant())
    update_volume(actor=SYSTEM, volume=volume, changes={"read_only": True}, expected_version=None, now=now())
    delete_volume(actor=SYSTEM, volume=volume, now=now())
    verbs = AuditEvent.objects.filter(target_id=str(volume.id)).order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["volume.create", "volume.edit", "volume.delete"]
