"""Lists and explanations name one cause of a wait, and the job that it is about to those who may see that job."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from clusters.engines.fake import Script
from clusters.models import Node
from clusters.services import cordon_node
from jobs.models import Job
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

Api = Callable[..., Any]
ALL = {"resources": {"cpu": 8, "memory": "1Gi"}}
LONG = Script(duration_seconds=10_000)
CHINESE = {"Accept-Language": "zh-CN"}


@pytest.mark.parametrize("is_own", [True, False])
def test_a_job_behind_a_wide_one_says_for_which_job_the_room_is_kept_and_what_that_needs(
    quay: Quay, api: Api, is_own: bool
) -> None:
    """In the list and first of all in the explanation; of another tenant's job only what it needs."""
    half, by = {"cpu": 4, "memory": "1Gi"}, None if is_own else quay.cast.carol
    quay.submit("runs", by=by, script=LONG, resources=half, max_runtime="2h")
    quay.turn(2)
    wide = quay.submit("wide-canary", by=by, **ALL, max_runtime="1h")
    quay.turn()
    small = quay.submit("small", resources=half, max_runtime="20h")
    quay.turn()
    client = api(quay.cast.bob)
    listed, asked = (client.get(f"/api/v1/jobs/{small.id}{path}") for path in ("", "/explain?quick=true"))
    told = asked.json()

    assert told["reason"] == listed.json()["reason"]
    assert (told["reason"]["code"], told["now"]) == ("backfill_reservation", None)
    first = told["conditions"][0]
    assert first["code"] == "backfill_reservation"
    for text in (told["reason"]["text"], first["text"]):
        whom = "job wide-canary (bob)" if is_own else "a job of another tenant"
        assert text.startswith(f"Kept for {whom}, which needs 8 cores, 1 GiB: pool ")
    assert [job["name"] for job in first["jobs"]] == (["wide-canary"] if is_own else [])
    if not is_own:
        assert not any(secret in (listed.content + asked.content).decode() for secret in ("wide-canary", str(wide.id)))
    assert "no_room" not in {condition["code"] for condition in told["conditions"]}, "there is room, and it is kept"
    if is_own:  # What is kept for the job itself is free for it.
        text = client.get(f"/api/v1/jobs/{wide.id}").json()["reason"]["text"]
        assert text.startswith(
            f"It needs 8 cores; pool {quay.pool.name} has 4 cores free; job runs (bob) holds the missing 4 cores"
        )
    chinese = client.get(f"/api/v1/jobs/{small.id}", headers=CHINESE).json()["reason"]["text"]
    assert chinese.startswith(
        f"为需要 8 核 CPU、1 GiB 的{'作业 wide-canary（bob）' if is_own else '其他租户的作业'}保留：资源池 "
    )


@pytest.mark.parametrize("is_own", [True, False])
def test_a_list_names_the_job_that_holds_the_room_until_that_has_ended(quay: Quay, api: Api, is_own: bool) -> None:
    by = None if is_own else quay.cast.carol
    holder = quay.submit("holder-canary", by=by, script=LONG, **ALL, max_runtime="2h")
    quay.turn(2)
    job = quay.submit("waits", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    client = api(quay.cast.bob)

    def told(who: Any = client, headers: dict[str, str] | None = None) -> str:
        answer = who.get(f"/api/v1/jobs?standing=true&name={job.name}", headers=headers or {})
        if not is_own and who is client:
            assert not any(secret in answer.content.decode() for secret in ("holder-canary", str(holder.id)))
        text: str = answer.json()["items"][0]["reason"]["text"]
        return text

    assert told().startswith(f"It needs 4 cores; pool {quay.pool.name} has 0 cores free; ")
    if is_own:
        assert re.search(r"; job holder-canary \(bob\) holds the missing 4 cores until \S+ \S+ UTC at the latest\.$", told())
        assert re.search(r"；所缺的 4 核 CPU 由作业 holder-canary（bob）占用，最迟至 \S+ \S+ UTC。$", told(headers=CHINESE))
    else:
        assert told().endswith("; a job of another tenant holds the missing 4 cores.")
        assert told(headers=CHINESE).endswith("；所缺的 4 核 CPU 由其他租户的作业占用。")
        assert "job holder-canary (carol, tenant elsewhere) holds" in told(api(quay.cast.otto))
    first = client.get(f"/api/v1/jobs/{job.id}/explain?quick=true").json()["conditions"][0]
    assert (first["code"], [named["name"] for named in first["jobs"]]) == ("no_room", ["holder-canary"] if is_own else [])

    Job.objects.filter(id=holder.id).update(state="succeeded")  # The scheduler has not heard of it yet.
    if is_own:
        assert told().endswith("free, so 4 cores are missing.")


def test_a_job_whose_holder_has_ended_is_told_the_next_one(quay: Quay, api: Api) -> None:
    first = quay.submit("first", script=LONG, **ALL, max_runtime="1h")
    quay.turn(2)
    quay.submit("second", **ALL, script=LONG, max_runtime="2h")
    quay.pass_time(1)
    job = quay.submit("waits", **ALL)
    quay.turn()
    quay.stop(first)
    quay.turn(3)

    text = api(quay.cast.bob).get(f"/api/v1/jobs/{job.id}").json()["reason"]["text"]

    assert "; job second (bob) holds the missing 8 cores" in text


def test_a_reason_that_has_gone_is_told_with_its_time_beside_that_of_now(quay: Quay, api: Api) -> None:
    quay.submit("runs", script=LONG, **ALL)
    quay.turn(2)
    job = quay.submit("waits", **ALL)
    quay.turn()
    listed = {"pool": quay.pool.name, "at": "2026-11-23T14:05:00+00:00", "found_at": "2026-11-23T14:02:11Z"}
    Job.objects.filter(id=job.id).update(reason_code="backfill_reservation", reason_detail=listed)

    told = api(quay.cast.bob).get(f"/api/v1/jobs/{job.id}/explain?quick=true").json()

    assert told["reason"]["text"].startswith("Kept for an earlier job: ")
    assert told["reason"]["found_at"] == "2026-11-23T14:02:11Z"
    assert told["now"]["text"].startswith("It needs ")
    assert (told["now"]["found_at"], told["now"]["code"]) == (told["at"], told["conditions"][0]["code"])


def test_what_no_node_takes_now_is_told_first_in_both(quay: Quay, api: Api) -> None:
    node = Node.objects.get(name="node-1")
    cordon_node(actor=quay.cast.otto.actor, node_id=node.pk, now=quay.now)
    job = quay.submit("waits", **ALL)
    quay.turn()

    told = api(quay.cast.bob).get(f"/api/v1/jobs/{job.id}/explain?quick=true").json()

    assert (told["reason"]["code"], told["now"]) == ("no_ready_node", None)
    assert (told["conditions"][0]["code"], told["conditions"][0]["text"]) == ("no_ready_node", told["reason"]["text"])
