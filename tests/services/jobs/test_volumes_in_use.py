"""Volumes under running jobs: their files stay, whatever became of the volumes meanwhile."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from clusters.engines.fake import Script
from jobs.loading.in_use import volumes_in_use
from jobs.loading.specs import forget_specs
from storage.services.volumes import delete_volume, grant_volume
from tests.builders.quay import Quay
from tests.factories.storage import make_volume
from tests.factories.tenants import SYSTEM, make_tenant, now

pytestmark = pytest.mark.database


def test_what_running_jobs_have_mounted_stays_in_use(quay: Quay, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    other, tenant = make_tenant("lenders"), quay.cast.tenant
    deleted, lent, waiting = make_volume(tenant, "deleted"), make_volume(other, "lent"), make_volume(tenant, "waiting")
    make_volume(other, "deleted")
    grant_volume(actor=SYSTEM, volume=lent, tenant_id=tenant.pk, read_only=False, now=now())
    for number, name in enumerate(("deleted", f"{other.slug}/lent", "lenders/lent")):
        quay.submit(
            name=f"job-{number}", script=Script(duration_seconds=None), mounts=[{"volume": name, "path": f"/data-{number}"}]
        )
    quay.submit(name="none", command="volume")
    quay.turn()
    quay.submit(name="waits", hold=True, mounts=[{"volume": "waiting", "path": "/data"}])
    for volume in (deleted, lent, waiting):
        delete_volume(actor=SYSTEM, volume=volume, now=now())
    forget_specs()
    with django_assert_max_num_queries(4):
        assert volumes_in_use() == {deleted.id, lent.id}
