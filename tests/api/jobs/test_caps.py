"""A job that is by itself more than its user or tenant may hold at a time is refused when it is submitted, with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tenants.models import QueueRule, UserCap
from tests.builders.quay import Quay
from tests.factories.tenants import top_queue

pytestmark = pytest.mark.database

Api = Callable[..., Any]


def submit(api: Api, quay: Quay, **spec: Any) -> Any:
    resources = {"cpu": "100m", "memory": "16Mi"}
    body = json.dumps({"spec": {"name": "train", "command": "true", "resources": resources, **spec}})
    return api(quay.cast.bob).post("/api/v1/jobs", body, content_type="application/json")


@pytest.mark.capability(
    "25", "A job above its caps is refused with every cap and the way out; one that waits is told the numbers"
)
def test_more_than_a_user_or_a_tenant_may_ever_hold_is_refused_with_every_cap_and_the_way_out(quay: Quay, api: Api) -> None:
    assert submit(api, quay, replicas=4).status_code == 201, "nothing is capped"
    UserCap.objects.create(tenant=quay.cast.tenant, user=None, containers=2, jobs=1)
    QueueRule.objects.create(queue=top_queue(quay.cast.tenant), max_containers=3)

    refused = submit(api, quay, replicas=4)

    assert refused.status_code == 422, refused.json()
    body = refused.json()
    assert body["code"] == "quota_exceeded"
    assert [entry["code"] for entry in body["fields"]] == ["user_cap_too_low", "tenant_cap_too_low"]
    assert "takes 4 containers; its user may have 2 containers at a time" in body["fields"][0]["message"]
    assert "berth queues caps" in body["fields"][0]["hint"]
    assert "berth queues counts" in body["fields"][1]["hint"]
    assert submit(api, quay, replicas=2).status_code == 201
    assert submit(api, quay, replicas={"min": 2, "max": 4}).status_code == 201, "it starts with as many as it may"


@pytest.mark.capability(
    "25", "A job above its caps is refused with every cap and the way out; one that waits is told the numbers"
)
def test_a_job_that_waits_for_its_tenants_cap_says_so_with_its_numbers(quay: Quay, api: Api) -> None:
    QueueRule.objects.create(queue=top_queue(quay.cast.tenant), max_containers=3)
    first, second = (quay.submit(name, replicas=2, resources={"cpu": "100m", "memory": "16Mi"}) for name in ("first", "second"))
    quay.schedule()
    assert quay.state(first) == "admitted"
    shown = api(quay.cast.bob).get(f"/api/v1/jobs/{second.id}").json()["reason"]
    assert shown["code"] == "tenant_cap"
    assert "2 containers of at most 3 containers" in shown["text"]
    explained = api(quay.cast.bob).get(f"/api/v1/jobs/{second.id}/explain").json()
    assert [condition["code"] for condition in explained["conditions"]] == ["tenant_cap"]
    assert [job["name"] for job in explained["conditions"][0]["jobs"]] == ["first"]
