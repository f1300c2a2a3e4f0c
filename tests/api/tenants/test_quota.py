"""Edits of limits, caps per person and time limits over HTTP: tried first, made together, planned and cancelled."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent, Event
from kernel.resources import Resources
from tenants.capacity import reads as capacity
from tenants.capacity.lifecycle import EditState
from tenants.capacity.quota.caps import TOGETHER, CapFacts
from tenants.capacity.quota.limits import Limit
from tenants.capacity.services.edits import Consequence, _forecasts
from tenants.identity import selectors as identity
from tenants.models import QueueLimit, QueueRule, QueueUsage, QuotaEdit
from tenants.services import apply_due_edits, register_forecast, reserve
from tests.factories.clusters import a_cluster
from tests.factories.tenants import Cast, ask, limit, make_queue, make_tenant, now, top_queue

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = pytest.mark.database
Api = Callable[..., "APIClient"]
EDITS = "/api/v1/quota/edits"
BUDGET: dict[str, int] = json.loads((Path(__file__).parents[2] / "statements.json").read_text())


@pytest.fixture
def pool(db: None) -> Any:
    """16 GPUs on two nodes."""
    return a_cluster("here").with_nodes(2, gpus=8).build().pools.get()


def change(queue: Any, pool: Any, resource: str = "gpu_millis", **values: int | None) -> dict[str, Any]:
    return {"queue": str(queue.pk), "pool": str(pool.pk), "resource": resource, **values}


def edit(api: Api, person: Any, *changes: dict[str, Any], **options: Any) -> Any:
    return api(person).post(EDITS, {"changes": list(changes), **options}, format="json")


def limit_of(queue: Any, pool: Any) -> Limit:
    (found,) = [limited for limited in capacity.limits_tree().queues if limited.id == queue.pk]
    return found.limit(pool.pk, "gpu_millis")


@pytest.mark.capability("22", "Many queues are edited at once, after a dry run, with an audit entry")
def test_an_edit_changes_many_queues_at_once_and_leaves_an_audit_entry(api: Api, cast: Cast, pool: Any) -> None:
    top, other = top_queue(cast.tenant), top_queue(cast.elsewhere)
    answer = edit(
        api,
        cast.otto,
        change(top, pool, guarantee=4000, deserved=8000, weight=3),
        change(other, pool, guarantee=8000, ceiling=12000),
        comment="Q1 plan",
    )

    assert answer.status_code == 201
    assert answer.json()["state"] == "applied"
    assert answer.json()["changes"][0]["before"] == {"guarantee": 0, "deserved": None, "ceiling": None, "weight": 1}
    assert limit_of(top, pool) == Limit(4000, 8000, None, 3)
    assert limit_of(other, pool) == Limit(8000, None, 12000, 1)
    assert QueueUsage.objects.get(queue=other, pool_id=pool.pk).gpu_millis_max == 12000
    audit = AuditEvent.objects.get(verb="quota_edit.apply")
    assert audit.after["comment"] == "Q1 plan"
    assert Event.objects.filter(kind="queue.limited").count() == 2
    shown = api(cast.vera).get(f"/api/v1/queues/{top.pk}").json()["pools"][0]
    assert shown["guarantee"]["gpu_millis"] == 4000
    assert shown["deserved"]["gpu_millis"] == 8000
    assert shown["weight"] == {"cpu_millis": 1, "memory_bytes": 1, "gpu_millis": 3}


@pytest.mark.capability("22", "Children are promised no more than their parent has, per pool and resource, after any edit")
def test_every_break_of_the_tree_is_told_at_the_change_that_makes_it(api: Api, cast: Cast, pool: Any) -> None:
    top, other, own = top_queue(cast.tenant), top_queue(cast.elsewhere), make_queue(cast.tenant, "day")
    refused = edit(
        api,
        cast.otto,
        change(top, pool, guarantee=9000),
        change(other, pool, guarantee=9000, ceiling=8000),
        change(own, pool, deserved=9001),
    )

    assert refused.status_code == 422
    found = {(entry["path"], entry["code"]) for entry in refused.json()["fields"]}
    assert found == {
        ("/changes/0/guarantee", "sum_above_parent"),
        ("/changes/0/deserved", "sum_above_parent"),
        ("/changes/1/guarantee", "above_ceiling"),
    }
    assert "18 GPUs" in str(refused.json()["fields"])
    assert "has 16 GPUs" in str(refused.json()["fields"])
    assert not QueueLimit.objects.exists()


@pytest.mark.capability("22", "Many queues are edited at once, after a dry run, with an audit entry")
def test_a_dry_run_says_who_would_hold_too_much_and_changes_nothing(api: Api, cast: Cast, pool: Any) -> None:
    own = make_queue(cast.tenant, "day")
    reserve([ask(own, pool.pk, Resources(gpu_millis=6000))], now=now())
    answer = edit(api, cast.alice, change(own, pool, ceiling=4000), dry_run=True)

    assert answer.status_code == 200
    assert answer.json()["state"] == "dry_run"
    assert answer.json()["forecast"]["over"] == [
        {
            "queue": {"id": str(own.pk), "name": "day"},
            "pool": {"id": str(pool.pk), "name": pool.name, "cluster": "here"},
            "resource": "gpu_millis",
            "column": "ceiling",
            "used": 6000,
            "limit": 4000,
            "was_over": False,
        }
    ]
    assert answer.json()["forecast"]["jobs"] == []
    assert not QueueLimit.objects.exists()
    assert not QuotaEdit.objects.exists()

    broken = edit(api, cast.alice, change(own, pool, guarantee=4000), dry_run=True)
    assert broken.status_code == 200
    assert {entry["code"] for entry in broken.json()["forecast"]["problems"]} == {"sum_above_parent"}


@pytest.fixture
def scheduler() -> Iterator[list[Any]]:
    """Something that schedules and says that one job would be evicted."""
    asked: list[Any] = []

    def say(queues: Any, actor: Any, at: Any) -> list[Consequence]:
        asked.append(queues)
        return [Consequence("is_evicted", uuid.UUID(int=7), uuid.UUID(int=8), "train", "it runs on what others deserve")]

    known = list(_forecasts)
    register_forecast(say)
    yield asked
    _forecasts[:] = known


def test_the_scheduler_says_in_a_dry_run_what_becomes_of_jobs(api: Api, cast: Cast, pool: Any, scheduler: list[Any]) -> None:
    own = make_queue(cast.tenant, "day")
    answer = edit(api, cast.alice, change(own, pool, ceiling=4000), dry_run=True)

    assert answer.json()["forecast"]["jobs"][0]["what"] == "is_evicted"
    (after,) = [queue for queue in scheduler[0] if queue.id == own.pk]
    assert after.limit(pool.pk, "gpu_millis").ceiling == 4000, "it is asked about the tree as it would be"


@pytest.mark.capability("22", "An edit waits for its time, is checked again then, and can be cancelled")
def test_an_edit_with_a_later_time_waits_for_it_and_is_made_by_the_sweep(api: Api, cast: Cast, pool: Any) -> None:
    top = top_queue(cast.tenant)
    start = now() + timedelta(days=3)
    planned = edit(api, cast.otto, change(top, pool, guarantee=4000), effective_from=start.isoformat())

    assert planned.status_code == 201
    assert planned.json()["state"] == "pending"
    assert limit_of(top, pool) == Limit()
    assert apply_due_edits(start - timedelta(seconds=1)) == 0
    assert apply_due_edits(start + timedelta(seconds=1)) == 1
    assert apply_due_edits(start + timedelta(seconds=1)) == 0
    assert limit_of(top, pool).guarantee == 4000
    shown = api(cast.otto).get(f"{EDITS}/{planned.json()['id']}").json()
    assert shown["state"] == "applied"
    assert shown["created_by"]["name"] == "otto"


@pytest.mark.capability("22", "An edit waits for its time, is checked again then, and can be cancelled")
def test_an_edit_that_no_longer_fits_when_its_time_comes_is_refused_and_says_why(api: Api, cast: Cast, pool: Any) -> None:
    top, other = top_queue(cast.tenant), top_queue(cast.elsewhere)
    start = now() + timedelta(days=3)
    planned = edit(api, cast.otto, change(top, pool, guarantee=9000), effective_from=start.isoformat()).json()
    edit(api, cast.otto, change(other, pool, guarantee=9000))

    assert apply_due_edits(start) == 1
    shown = api(cast.otto).get(f"{EDITS}/{planned['id']}").json()
    assert shown["state"] == "refused"
    assert {problem["code"] for problem in shown["problems"]} == {"sum_above_parent"}
    assert limit_of(top, pool) == Limit()
    assert Event.objects.filter(kind="queue.limit_refused").exists()


@pytest.mark.capability("22", "An edit waits for its time, is checked again then, and can be cancelled")
def test_a_planned_edit_is_cancelled_once(api: Api, cast: Cast, pool: Any) -> None:
    own = make_queue(cast.tenant, "day")
    start = now() + timedelta(days=3)
    planned = edit(api, cast.alice, change(own, pool, ceiling=4000), effective_from=start.isoformat()).json()
    path = f"{EDITS}/{planned['id']}"

    assert api(cast.bob).delete(path).status_code == 403
    assert api(cast.carol).delete(path).status_code == 404
    assert api(cast.alice).delete(path).json()["state"] == "cancelled"
    assert api(cast.alice).delete(path).status_code == 409
    assert apply_due_edits(start + timedelta(days=1)) == 0
    assert [entry["state"] for entry in api(cast.vera).get(EDITS).json()["items"]] == ["cancelled"]
    assert api(cast.carol).get(EDITS).json()["items"] == []
    assert api(cast.vera).get(EDITS, {"state": "pending"}).json()["items"] == []


def test_a_queue_is_edited_by_whoever_owns_the_one_above(api: Api, cast: Cast, pool: Any) -> None:
    top, own = top_queue(cast.tenant), make_queue(cast.tenant, "day")
    child = top_queue(make_tenant("child", parent=cast.tenant))
    cast_alice = cast.alice.token

    assert edit(api, cast_alice, change(top, pool, ceiling=1000)).status_code == 403
    assert edit(api, cast_alice, change(own, pool, ceiling=1000), change(child, pool, ceiling=1000)).status_code == 201
    assert edit(api, cast.bob, change(own, pool, ceiling=1000)).status_code == 403
    assert edit(api, cast.bob, change(own, pool, ceiling=1000), dry_run=True).status_code == 403
    assert edit(api, cast.carol, change(own, pool, ceiling=1000)).status_code == 422
    assert QuotaEdit.objects.get().tenant_id == cast.tenant.pk


def test_bad_input_is_refused_with_where_and_what_would_be_accepted(api: Api, cast: Cast, pool: Any) -> None:
    own = make_queue(cast.tenant, "day")
    bad = [
        {**change(own, pool, guarantee=-1)},
        {**change(own, pool, ceiling=2**60)},
        {**change(own, pool), "weight": float("1.5")},
        {**change(own, pool, resource="tpus", ceiling=1)},
        {"queue": str(own.pk), "resource": "gpu_millis", "ceiling": 1},
        {**change(own, pool, ceiling=1), "borrow": 3},
    ]
    refused = edit(api, cast.alice, *bad)
    assert refused.status_code == 422
    paths = [entry["path"] for entry in refused.json()["fields"]]
    assert paths == [
        "/changes/0/guarantee",
        "/changes/1/ceiling",
        "/changes/2/weight",
        "/changes/3/resource",
        "/changes/4/pool",
        "/changes/5/borrow",
    ]
    nan = api(cast.alice).post(
        EDITS,
        f'{{"changes": [{{"queue": "{own.pk}", "pool": "{pool.pk}", "resource": "gpu_millis", "weight": NaN}}]}}',
        content_type="application/json",
    )
    assert nan.status_code in {400, 422}

    unknown = {**change(own, pool, ceiling=1), "pool": "h900"}
    assert edit(api, cast.alice, unknown).json()["fields"][0]["path"] == "/changes/0/pool"
    assert edit(api, cast.alice).status_code == 422
    assert edit(api, cast.alice, change(own, pool)).json()["fields"][0]["path"] == "/changes/0"
    past = (now() - timedelta(days=1)).isoformat()
    assert edit(api, cast.alice, change(own, pool, ceiling=1), effective_from=past).json()["fields"][0]["code"] == "in_the_past"
    far = (now() + timedelta(days=900)).isoformat()
    assert edit(api, cast.alice, change(own, pool, ceiling=1), effective_from=far).json()["fields"][0]["code"] == "out_of_range"
    assert edit(api, cast.alice, change(own, pool, ceiling=1), versions={"x": 1}).json()["fields"][0]["path"] == "/versions/x"


def test_an_edit_of_a_queue_that_changed_meanwhile_is_refused(api: Api, cast: Cast, pool: Any) -> None:
    own = make_queue(cast.tenant, "day")
    assert edit(api, cast.alice, change(own, pool, ceiling=4000), versions={str(own.pk): 1}).status_code == 201
    assert edit(api, cast.alice, change(own, pool, ceiling=2000), versions={str(own.pk): 1}).status_code == 412
    assert edit(api, cast.alice, change(own, pool, ceiling=2000), versions={str(own.pk): 2}).status_code == 201


def test_names_mean_queues_of_the_tenant_that_is_given(api: Api, cast: Cast, pool: Any) -> None:
    own = make_queue(cast.tenant, "day")
    make_queue(cast.elsewhere, "day")
    by_name = {"queue": "day", "pool": f"here/{pool.name}", "resource": "gpu_millis", "ceiling": 1000}

    assert edit(api, cast.otto, by_name).json()["fields"][0]["code"] == "not_found"
    assert edit(api, cast.otto, by_name, tenant="vision").status_code == 201
    assert limit_of(own, pool).ceiling == 1000
    assert edit(api, cast.alice, by_name, tenant="elsewhere").status_code == 404


def test_replacing_ceilings_keeps_promises_that_are_not_named(api: Api, cast: Cast, pool: Any) -> None:
    top = top_queue(cast.tenant)
    path = f"/api/v1/queues/{top.pk}/limits"
    entry = {"pool": str(pool.pk), "guarantee": {"gpu_millis": 4000}, "deserved": {"gpu_millis": 6000}, "gpu_millis": 8000}

    assert api(cast.otto).put(path, [entry], format="json").status_code == 200
    assert limit_of(top, pool) == Limit(4000, 6000, 8000)
    assert api(cast.otto).put(path, [{"pool": str(pool.pk), "gpu_millis": 7000}], format="json").status_code == 200
    assert limit_of(top, pool) == Limit(4000, 6000, 7000)
    refused = api(cast.otto).put(path, [{"pool": str(pool.pk), "gpu_millis": 5000}], format="json")
    assert [(entry["path"], entry["code"]) for entry in refused.json()["fields"]] == [("/0/deserved/gpu_millis", "above_ceiling")]
    assert api(cast.otto).put(path, [], format="json").status_code == 200
    assert limit_of(top, pool) == Limit(4000, 6000, None)


def test_a_ceiling_may_be_cut_below_those_further_down_as_before(api: Api, cast: Cast, pool: Any) -> None:
    top, own = top_queue(cast.tenant), make_queue(cast.tenant, "day")
    limit(own, pool.pk, gpu_millis=8000)
    path = f"/api/v1/queues/{top.pk}/limits"
    assert api(cast.otto).put(path, [{"pool": str(pool.pk), "gpu_millis": 4000}], format="json").status_code == 200
    assert edit(api, cast.otto, change(top, pool, ceiling=3000)).status_code == 422
    assert edit(api, cast.otto, change(top, pool, ceiling=3000), change(own, pool, ceiling=3000)).status_code == 201


def test_statements_do_not_depend_on_the_number_of_changes(api: Api, cast: Cast, pool: Any) -> None:
    queues = [make_queue(cast.tenant, f"q{number}") for number in range(12)]
    counts = []
    for chosen in (queues[:2], queues[2:]):
        with CaptureQueriesContext(connection) as found:
            assert edit(api, cast.alice, *(change(queue, pool, ceiling=4000) for queue in chosen)).status_code == 201
        counts.append(len(found))
        with CaptureQueriesContext(connection) as found:
            assert (
                edit(api, cast.alice, *(change(queue, pool, ceiling=4000) for queue in chosen), dry_run=True).status_code == 200
            )
        counts.append(len(found))
    assert counts[2:] <= counts[:2]
    assert counts[2] <= BUDGET["quota_edit"]
    assert counts[3] <= BUDGET["quota_edit as a dry run"]
    assert QuotaEdit.objects.filter(state=EditState.APPLIED).count() == 2


def test_caps_per_person_are_replaced_as_a_whole_and_shown(api: Api, cast: Cast) -> None:
    path = f"/api/v1/tenants/{cast.tenant.slug}/caps"
    lines = [{"user": None, "gpu_millis": 4000, "jobs": 10}, {"user": "bob", "containers": 3}]

    assert api(cast.bob).put(path, lines, format="json").status_code == 403
    assert api(cast.carol).get(path).status_code == 404
    shown = api(cast.alice).put(path, lines, format="json")
    assert shown.status_code == 200
    assert shown.json() == api(cast.vera).get(path).json()
    assert [
        (line["user"] and line["user"]["name"], line["gpu_millis"], line["containers"]) for line in shown.json()["items"]
    ] == [
        (None, 4000, None),
        ("bob", None, 3),
    ]
    caps = capacity.user_caps()
    child = make_tenant("child", parent=cast.tenant)
    assert identity.tenant_paths()[child.pk] == (child.pk, cast.tenant.pk)
    assert caps.cap_of(cast.tenant.pk, cast.alice.user.pk).jobs == 10
    assert caps.cap_of(cast.tenant.pk, cast.bob.user.pk).jobs is None
    assert AuditEvent.objects.filter(verb="cap.edit").count() == 1
    api(cast.alice).put(path, lines, format="json")
    assert AuditEvent.objects.filter(verb="cap.edit").count() == 1, "the same again changes nothing"
    bad = api(cast.alice).put(path, [{"user": "carol"}, {"jobs": -1}], format="json")
    assert bad.json()["fields"][0]["path"] == "/1/jobs"
    bad = api(cast.alice).put(path, [{"user": "carol"}, {"user": None}, {"user": None}], format="json")
    assert [entry["path"] for entry in bad.json()["fields"]] == ["/0/user"]
    bad = api(cast.alice).put(path, [{"user": None}, {"user": None}], format="json")
    assert [entry["code"] for entry in bad.json()["fields"]] == ["repeated"]


@pytest.mark.capability("24", "The owner of the queue above limits how long jobs run")
def test_the_time_of_jobs_is_limited_by_whoever_owns_the_queue_above(api: Api, cast: Cast) -> None:
    top, own = top_queue(cast.tenant), make_queue(cast.tenant, "day")

    def put(person: Any, queue: Any, seconds: Any, **headers: str) -> Any:
        body = {"max_runtime_seconds": seconds}
        return api(person).put(f"/api/v1/queues/{queue.pk}/rules", body, format="json", headers=headers)

    assert put(cast.alice, top, 3600).status_code == 403
    assert put(cast.otto, top, 3600).status_code == 200
    first = put(cast.alice, own, 7200)
    others = dict.fromkeys(("max_jobs", "max_containers", "default_runtime_seconds", "effective_default_runtime_seconds"))
    assert first.json() == {"max_runtime_seconds": 7200, "effective_max_runtime_seconds": 3600, "version": 2, **others}
    assert put(cast.alice, own, 60, **{"If-Match": '"1"'}).status_code == 412
    assert put(cast.alice, own, 0).json()["fields"][0]["path"] == "/max_runtime_seconds"
    assert put(cast.alice, own, None).json()["effective_max_runtime_seconds"] == 3600
    assert capacity.runtime_limits() == {top.pk: 3600}
    assert api(cast.vera).get(f"/api/v1/queues/{own.pk}/rules").json()["max_runtime_seconds"] is None


def test_the_time_that_jobs_are_planned_with_is_said_by_whoever_owns_the_queue_above_and_the_nearest_queue_counts(
    api: Api, cast: Cast
) -> None:
    top, own = top_queue(cast.tenant), make_queue(cast.tenant, "day")

    def put(person: Any, queue: Any, **body: Any) -> Any:
        return api(person).put(f"/api/v1/queues/{queue.pk}/rules", body, format="json")

    assert put(cast.alice, top, default_runtime_seconds=3600).status_code == 403
    assert put(cast.bob, own, default_runtime_seconds=3600).status_code == 403
    assert put(cast.carol, own, default_runtime_seconds=3600).status_code == 404
    assert put(cast.otto, top, default_runtime_seconds=3600).status_code == 200
    assert put(cast.alice, own, max_runtime_seconds=None).json()["effective_default_runtime_seconds"] == 3600
    mine = put(cast.alice, own, default_runtime_seconds=7200).json()
    assert (mine["default_runtime_seconds"], mine["effective_default_runtime_seconds"]) == (7200, 7200), "the nearest counts"
    assert put(cast.alice, own, max_runtime_seconds=86_400).json()["default_runtime_seconds"] == 7200, "what is not named stays"
    assert AuditEvent.objects.filter(verb="queue.limit").latest("id").before["default_runtime_seconds"] == 7200
    assert capacity.default_runtimes() == {top.pk: 3600, own.pk: 7200}
    assert put(cast.alice, own, default_runtime_seconds=None).json()["effective_default_runtime_seconds"] == 3600
    assert api(cast.vera).get(f"/api/v1/queues/{own.pk}/rules").json()["default_runtime_seconds"] is None
    root = top.parent
    assert root is not None
    assert put(cast.otto, root, default_runtime_seconds=60).status_code == 403


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0, "min_value"), (-1, "min_value"), (10 * 366 * 86_400, "max_value"), (2**62, "max_value"),
        *((value, "invalid") for value in ("2h", "", True, 1.5, [], {})),
    ],
)  # fmt: skip
def test_a_planned_time_that_is_none_is_refused_together_with_what_else_is_wrong(
    api: Api, cast: Cast, value: object, code: str
) -> None:
    own = make_queue(cast.tenant, "day")
    body = {"default_runtime_seconds": value, "max_runtime_seconds": 0, "nonsense": 1}
    refused = api(cast.alice).put(f"/api/v1/queues/{own.pk}/rules", body, format="json")
    assert refused.status_code == 422
    fields = {entry["path"]: entry["code"] for entry in refused.json()["fields"]}
    assert fields == {"/default_runtime_seconds": code, "/max_runtime_seconds": "min_value", "/nonsense": "unknown_field"}
    assert not QueueRule.objects.exists()


def test_how_many_jobs_and_containers_a_tenant_has_is_given_by_whoever_owns_the_queue_above(api: Api, cast: Cast) -> None:
    top, own = top_queue(cast.tenant), make_queue(cast.tenant, "day")

    def put(person: Any, queue: Any, **body: Any) -> Any:
        return api(person).put(f"/api/v1/queues/{queue.pk}/rules", body, format="json")

    assert put(cast.alice, top, max_containers=8).status_code == 403
    assert put(cast.otto, top, max_containers=8).json()["max_containers"] == 8
    both = put(cast.otto, top, max_jobs=3).json()
    assert (both["max_jobs"], both["max_containers"]) == (3, 8), "what is not named stays"
    assert [entry["code"] for entry in put(cast.alice, own, max_jobs=3).json()["fields"]] == ["not_top_queue"]
    assert put(cast.otto, top).status_code == 422
    assert [entry["path"] for entry in put(cast.otto, top, max_jobs=-1).json()["fields"]] == ["/max_jobs"]
    assert capacity.user_caps().cap_of(cast.tenant.pk, TOGETHER) == CapFacts(cast.tenant.pk, TOGETHER, None, 3, 8)
    assert [entry.before["max_containers"] for entry in AuditEvent.objects.filter(verb="queue.limit").order_by("id")][1] == 8
    assert put(cast.otto, top, max_jobs=None, max_containers=None).status_code == 200
    assert not capacity.user_caps()


def test_an_edit_at_which_the_platform_fails_keeps_none_behind_it_from_its_turn(
    api: Api, cast: Cast, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, start = top_queue(cast.tenant), now() + timedelta(days=3)
    times = {guarantee: (start + timedelta(seconds=guarantee)).isoformat() for guarantee in (1, 2, 3)}
    made = [
        edit(api, cast.otto, change(top, pool, guarantee=guarantee), effective_from=at).json() for guarantee, at in times.items()
    ]
    broken, *others = [uuid.UUID(each["id"]) for each in made]
    QuotaEdit.objects.filter(id=broken).update(changes=[{"queue": "of an older release"}])
    monkeypatch.setattr("tenants.capacity.services.edits.DUE_PER_SWEEP", 2)
    later = start + timedelta(hours=1)
    assert apply_due_edits(later) == 1
    assert apply_due_edits(later) == 1, "while the broken one rests it takes no place of the others"
    states = dict(QuotaEdit.objects.values_list("id", "state"))
    assert [states[edit_id] for edit_id in others] == [EditState.APPLIED] * 2
    assert states[broken] == EditState.PENDING
    assert limit_of(top, pool).guarantee == 3
