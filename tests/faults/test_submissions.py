"""The web process dies under a submission, before or after its commit: whoever asks again with the same key has one job.

The kill itself is in `test_crash_points.py`; here is what it leaves behind, again and again: an answer that never arrived.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from activity.models import AuditEvent
from jobs.models import Job
from kernel import crashpoints
from tests.builders.live import Json, LivePlatform
from tests.factories.tenants import Cast
from tests.faults.conftest import Steadfast


class Died(BaseException):
    """What a kill -9 does to everything above it."""


@pytest.fixture
def bob(cast: Cast, api: Any) -> Iterator[Any]:
    client = api(cast.bob)
    client.raise_request_exception = True
    yield client
    crashpoints.disarm_all()


def submit(client: Any, key: str) -> Any:
    return client.post("/api/v1/jobs", {"spec": {"command": "true"}}, format="json", headers={"Idempotency-Key": key})


@pytest.mark.database
@pytest.mark.parametrize("point", ["jobs.submit.before_commit", "jobs.submit.after_commit", "webapi.key.after_commit"])
def test_a_death_before_the_answer_and_a_second_try_make_one_job(point: str, bob: Any, configure: Any) -> None:
    configure(requests_per_minute=0, tenant_requests_per_minute=0)
    for number in range(20):

        def die() -> None:
            crashpoints.disarm_all()
            raise Died

        crashpoints.arm(point, die)
        with pytest.raises(Died):
            submit(bob, f"key-{number}")
        # The key's row and the job are one transaction, which ends after the service's own: neither is without the other.
        assert Job.objects.count() == number + (point == "webapi.key.after_commit")
        assert submit(bob, f"key-{number}").status_code == 201
        assert submit(bob, f"key-{number}").headers["Idempotency-Replayed"] == "true"
        assert Job.objects.count() == number + 1


@pytest.mark.database
@pytest.mark.parametrize("times", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_as_many_lost_answers_make_as_many_jobs(times: int, bob: Any, configure: Any) -> None:
    configure(requests_per_minute=0, tenant_requests_per_minute=0)
    for number in range(times):
        key = str(number)
        lost = submit(bob, key)
        again = submit(bob, key)
        assert again.json()["id"] == lost.json()["id"]
        assert (lost.status_code, again.status_code) == (201, 201)
    assert Job.objects.count() == times
    assert AuditEvent.objects.filter(verb="job.submit").count() == times


@pytest.mark.engines
@pytest.mark.database
def test_the_same_key_from_many_hands_at_once_makes_one_job(live_platform: LivePlatform) -> None:
    key, ids, strange = {"Idempotency-Key": uuid.uuid4().hex}, [], []
    body = {
        "spec": {"name": "once", "command": "true", "resources": {"cpu": 1, "memory": "64Mi"}},
        **live_platform.operator.in_tenant,
    }

    def ask() -> None:
        user = Steadfast(live_platform)
        for _ in range(10):
            answer: httpx2.Response = user.request("POST", "/jobs", json=body, headers=key)
            if answer.is_success:
                found: Json = answer.json()
                ids.append(found["id"])
            elif answer.status_code != 503:
                strange.append(answer.text)
        user.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert strange == []
    assert len(set(ids)) == 1
    assert len(ids) >= 60
