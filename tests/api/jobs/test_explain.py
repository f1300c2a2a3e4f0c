"""Why a job waits and what if, over HTTP: on a cluster that one job fills, as two tenants see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from clusters.engines.fake import Script
from jobs.loading.state import load_state
from jobs.models import DecisionRecord, Job
from jobs.scheduling.questions.whatif import End
from jobs.services.decision_records import DecisionRow, record_decisions
from jobs.services.redaction import Redactor
from jobs.services.suggesting import changes_json, may_be_thought_of
from tenants.capacity.quota.tree import Ceiling
from tenants.services import CapLine, PoolLimit, set_limits, set_user_caps
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import SYSTEM, Cast, limit, make_queue, top_queue

pytestmark = pytest.mark.database

Api = Callable[..., Any]
LONG = Script(duration_seconds=600)


def post(client: Any, body: Any) -> Any:
    return client.post("/api/v1/what-if", json.dumps(body), content_type="application/json")


def explained(client: Any, job: Any, **headers: str) -> Any:
    answer = client.get(f"/api/v1/jobs/{job}/explain", headers=headers)
    assert answer.status_code == 200, answer.content
    return answer.json()


def fill(quay: Quay, **more: Any) -> Job:
    """Carol's tenant holds the whole node."""
    job = quay.submit("filler", by=quay.cast.carol, resources={"cpu": 8, "memory": "1Gi"}, script=LONG, **more)
    quay.turn(2)
    assert quay.state(job) == "running"
    return job


def test_who_waits_reads_what_is_missing_and_that_another_tenant_holds_it_without_a_name(quay: Quay, api: Api) -> None:
    fill(quay)
    job = quay.submit("train", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    found = explained(api(quay.cast.bob), "train")
    assert (found["job"]["id"], found["state"], found["starts"]) == (str(job.id), "queued", False)
    (condition,) = found["conditions"]
    assert (condition["code"], condition["need"], condition["fitting"]) == ("no_room", 1, 0)
    assert [(refusal["code"], refusal["machines"]) for refusal in condition["filters"]] == [("cpu", 1)]
    (holder,) = condition["held_by"]
    assert (holder["queue"], holder["cpu_millis"], holder["jobs"]) == (None, 8000, 1)
    assert "elsewhere" not in json.dumps(found)
    assert "filler" not in json.dumps(found)
    assert (found["place"]["in_queue"], found["place"]["in_pool"]) == (1, 1)


def test_a_job_that_starts_says_what_its_tasks_wait_for_in_the_language_of_the_reader(quay: Quay, api: Api) -> None:
    roles = {"worker": {"replicas": 2, "command": "true"}}
    job = quay.submit("train", roles=roles, script=Script(start_seconds=60, pull_seconds=30))
    quay.turn(2)
    (wait,) = explained(api(quay.cast.bob), "train")["starting"]
    assert (wait["code"], wait["detail"], wait["tasks"], wait["tasks_count"]) == (
        "pulling_image",
        "",
        ["worker-0", "worker-1"],
        2,
    )
    assert wait["text"] == "Its image is being pulled."
    tasks = api(quay.cast.bob).get(f"/api/v1/jobs/{job.id}/tasks", headers={"Accept-Language": "zh"}).json()["items"]
    assert [task["waiting"]["text"] for task in tasks] == ["正在拉取镜像。"] * 2
    quay.pass_time(61)
    quay.turn()
    assert explained(api(quay.cast.bob), "train")["starting"] == []
    tasks = api(quay.cast.bob).get(f"/api/v1/jobs/{job.id}/tasks").json()["items"]
    assert [task["waiting"] for task in tasks] == [None, None]


def test_an_operator_reads_whose_it_is(quay: Quay, api: Api) -> None:
    fill(quay)
    quay.submit("train", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    found = explained(api(quay.cast.otto), "train")
    assert found["conditions"][0]["held_by"][0]["queue"]["name"] == top_queue(quay.cast.elsewhere).name
    ends = [suggestion for suggestion in found["suggestions"] if suggestion["kind"] == "end"]
    assert ends[0]["changes"][0]["end"]["name"] == "filler"


def test_the_words_are_in_the_language_of_the_reader(quay: Quay, api: Api) -> None:
    fill(quay)
    quay.submit("train", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    english, chinese = (explained(api(quay.cast.bob), "train", **{"Accept-Language": language}) for language in ("en", "zh-CN"))
    assert " has room for 0 of its 1 task: " in english["conditions"][0]["text"]
    assert "目前只能放下" in chinese["conditions"][0]["text"]
    assert all(suggestion["text"].endswith(".") for suggestion in english["suggestions"])
    assert all(suggestion["text"].endswith("。") for suggestion in chinese["suggestions"])


def test_a_change_that_is_suggested_comes_true_in_what_if_and_for_real(quay: Quay, api: Api) -> None:
    quay.submit("own", resources={"cpu": 6, "memory": "1Gi"}, script=LONG)
    quay.turn(2)
    job = quay.submit("train", resources={"cpu": 4, "memory": "1Gi"}, script=LONG)
    quay.turn()
    client = api(quay.cast.bob)
    suggestions = {suggestion["kind"]: suggestion for suggestion in explained(client, "train")["suggestions"]}
    assert {"cpu", "end_own"} <= set(suggestions)
    operators = {kind for kind, suggestion in suggestions.items() if suggestion["by"]}
    assert operators == {"machines"}
    assert suggestions["machines"]["text"].startswith("An operator can add 1 node with ")
    assert (suggestions["machines"]["changes"], suggestions["machines"]["by"]) == ([], [{"role": "operator", "tenant": None}])
    for suggestion in suggestions.values():
        if not suggestion["changes"]:
            continue  # For operators.
        answer = post(client, {"changes": suggestion["changes"]})
        assert answer.status_code == 200, answer.content
        starts = [entry["job"]["name"] for entry in answer.json()["starts"]["jobs"]]
        waits = [entry["job"]["name"] for entry in answer.json()["waits"]["jobs"] if entry["evicts"]]
        assert "train" in (starts if suggestion["starts_now"] else waits)
    assert suggestions["end_own"]["text"] == "End job own, which holds 6 cores, 1 GiB."
    quay.stop(Job.objects.get(name="own"))
    quay.turn(3)
    assert quay.state(job) in ("admitted", "starting", "running")


def test_a_cap_that_would_do_is_told_and_read_back(quay: Quay, api: Api) -> None:
    set_user_caps(actor=quay.cast.alice.actor, tenant=quay.cast.tenant, lines=[CapLine(None, jobs=1)], now=quay.now)
    quay.submit("first", resources={"cpu": 1, "memory": "1Gi"}, script=LONG)
    quay.turn(2)
    job = quay.submit("train", resources={"cpu": 1, "memory": "1Gi"}, script=LONG)
    quay.turn()
    client = api(quay.cast.bob)
    cap = next(suggestion for suggestion in explained(client, "train")["suggestions"] if suggestion["kind"] == "cap")
    tenant = quay.cast.tenant
    assert cap["text"] == f"A manager of {tenant.name} can let its user have 2 jobs at once in its tenant."
    assert cap["by"] == [{"role": "manager", "tenant": {"id": str(tenant.pk), "name": tenant.name}}]
    assert "Let its user have 2 jobs" in json.dumps(explained(api(quay.cast.alice), "train")["suggestions"])
    assert cap["changes"] == [{"cap": {"job": str(job.id), "above": 0, "what": "jobs", "amount": 2}}]
    answer = post(client, {"changes": cap["changes"]})
    assert [entry["job"]["name"] for entry in answer.json()["starts"]["jobs"]] == ["train"]
    wrong = {"cap": {"job": "train", "above": 7, "what": "jobs", "amount": 2}}
    answer = post(client, {"changes": [wrong, {"cap": {"job": "train", "what": "hats", "amount": 2}}]})
    assert [entry["path"] for entry in answer.json()["fields"]] == ["/changes/0/cap/above", "/changes/1/cap/what"]
    set_user_caps(actor=quay.cast.alice.actor, tenant=quay.cast.tenant, lines=[CapLine(None, jobs=2)], now=quay.now)
    quay.turn(3)
    assert quay.state(job) in ("admitted", "starting", "running")


def test_a_waiting_job_that_stands_before_is_not_said_to_hold_anything(quay: Quay, api: Api) -> None:
    make_queue(quay.cast.tenant, "day")
    jobs = [quay.submit(name, resources={"cpu": 8, "memory": "1Gi"}, script=LONG) for name in ("x6", "train")]
    theirs = quay.submit("theirs", by=quay.cast.carol, resources={"cpu": 8, "memory": "1Gi"}, script=LONG)
    reader = Redactor(quay.cast.bob.actor, load_state(quay.now))
    reader.look_up([str(job.id) for job in (*jobs, theirs)])
    (waiting,) = (job for job in reader.loaded.state.waiting if job.id == str(jobs[1].id))
    own, other = changes_json([End(str(jobs[0].id)), End(str(theirs.id))], waiting, reader, quay.now)
    assert own["text"] == "Stop the queued job x6, which is before it."
    assert other["text"] == "It starts when 1 queued job of another tenant is gone that is before it."
    assert may_be_thought_of([own["change"]], reader)
    assert not may_be_thought_of([own["change"], other["change"]], reader), "who is not named cannot be sent"
    assert post(api(quay.cast.bob), {"changes": [own["change"]]}).status_code == 200


def test_a_hold_is_all_that_is_suggested_where_it_is_all_that_is_missing(quay: Quay, api: Api) -> None:
    quay.submit("train", hold=True)
    quay.turn()
    found = explained(api(quay.cast.bob), "train")
    assert [(condition["code"], condition["own"]) for condition in found["conditions"]] == [("held", True)]
    assert [suggestion["text"] for suggestion in found["suggestions"]] == ["Release it."]
    assert found["place"]["in_queue"] is None


def test_a_ceiling_names_the_queue_and_the_limit_that_would_do(quay: Quay, api: Api) -> None:
    limit(top_queue(quay.cast.tenant), quay.pool.pk, cpu_millis=5000)
    quay.submit("first", resources={"cpu": 2, "memory": "1Gi"}, script=LONG)
    quay.turn(2)
    quay.submit("train", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    found = explained(api(quay.cast.bob), "train")
    ceiling = found["conditions"][0]
    assert (ceiling["code"], ceiling["queue"]["name"], ceiling["held"], ceiling["limit"]) == ("ceiling", "vision", 2000, 5000)
    assert ceiling["held_by"][0]["queue"]["name"] == "vision"
    raised = next(suggestion for suggestion in found["suggestions"] if suggestion["kind"] == "limit")
    assert raised["text"].startswith("An operator can set the ceiling to 6 cores for queue vision in pool ")
    assert post(api(quay.cast.bob), {"changes": raised["changes"]}).status_code == 200, (
        "what is not theirs to do may be thought of"
    )
    operators = next(
        suggestion for suggestion in explained(api(quay.cast.otto), "train")["suggestions"] if suggestion["kind"] == "limit"
    )
    assert operators["text"].startswith("Set the ceiling to 6 cores for queue vision in pool ")
    assert operators["by"] == []


def test_what_others_are_promised_is_changed_only_by_who_sees_it(quay: Quay, api: Api) -> None:
    promise = PoolLimit(quay.pool.pk, Ceiling(), {"cpu_millis": 6000})
    set_limits(actor=SYSTEM, queue=top_queue(quay.cast.elsewhere), limits=[promise], now=quay.now)
    quay.submit("train", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    mine, operators = (explained(api(person), "train") for person in (quay.cast.bob, quay.cast.otto))
    assert [condition["code"] for condition in mine["conditions"]] == ["withheld"]
    (holder,) = mine["conditions"][0]["held_by"]
    assert (holder["queue"], holder["cpu_millis"], holder["jobs"], holder["kept"]) == (None, 6000, 0, True)
    assert "limit" not in {suggestion["kind"] for suggestion in mine["suggestions"]}
    assert "limit" in {suggestion["kind"] for suggestion in operators["suggestions"]}


def test_one_who_does_not_wait_shows_what_was_decided_and_nothing_else(quay: Quay, api: Api) -> None:
    job = fill(quay)
    found = explained(api(quay.cast.carol), str(job.id))
    assert (found["state"], found["conditions"], found["suggestions"], found["place"]) == ("running", [], [], None)


def test_without_suggestions_it_is_quick(quay: Quay, api: Api) -> None:
    fill(quay)
    quay.submit("train", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    answer = api(quay.cast.bob).get("/api/v1/jobs/train/explain?quick=true").json()
    assert answer["conditions"]
    assert answer["suggestions"] == []


def test_decisions_are_read_newest_first_and_name_only_whom_the_reader_sees(quay: Quay, api: Api) -> None:
    theirs = fill(quay)
    mine = quay.submit("train")
    DecisionRecord.objects.all().delete()
    victims = [{"job": str(theirs.id), "cost": 5, "standing": "borrowed"}]
    queue = str(top_queue(quay.cast.elsewhere).pk)
    reason = {"code": "ceiling", "queue": queue, "resource": "cpu_millis", "need": 2000, "held": 3000, "limit": 4000}
    rows = [
        DecisionRow(mine.id, mine.tenant_id, "refuse", "pool", {"reason": reason}),
        DecisionRow(mine.id, mine.tenant_id, "claim", "pool", {"victims": victims, "cost": 5}),
    ]
    record_decisions(rows, now=quay.now)
    client = api(quay.cast.bob)
    items = client.get(f"/api/v1/jobs/{mine.id}/decisions").json()["items"]
    assert [record["kind"] for record in items] == ["claim", "refuse"]
    assert items[0]["detail"]["victims"] == [{"job": None, "cost": 5, "standing": "borrowed"}]
    assert items[1]["detail"]["reason"]["queue"] is None
    assert items[1]["detail"]["reason"]["text"].startswith("It needs 2 cores in the pool; a queue above holds 3 cores")
    assert [record["kind"] for record in explained(client, mine.id)["decisions"]] == ["claim", "refuse"]
    shown = api(quay.cast.otto).get(f"/api/v1/jobs/{mine.id}/decisions").json()["items"]
    assert shown[0]["detail"]["victims"][0]["job"]["name"] == "filler"
    path = f"/api/v1/jobs/{mine.id}/decisions"
    chinese = client.get(path, headers={"Accept-Language": "zh-CN"}).json()["items"][1]["detail"]["reason"]
    assert "需要 2 核 CPU" in chinese["text"]
    assert api(quay.cast.carol).get(f"/api/v1/jobs/{mine.id}/decisions").status_code == 404


# --- What if ------------------------------------------------------------------------------------------------------------


def test_jobs_that_are_submitted_in_thought_start_or_wait_and_are_not_there_afterwards(quay: Quay, api: Api) -> None:
    spec = {"name": "idea", "command": "true", "resources": {"cpu": 3, "memory": "1Gi"}}
    answer = post(api(quay.cast.bob), {"changes": [{"submit": {"spec": spec, "count": 3}}]}).json()
    assert [start["job"]["name"] for start in answer["starts"]["jobs"]] == ["idea-0", "idea-1"]
    assert answer["starts"]["jobs"][0]["nodes"] == ["node-1"]
    assert [wait["reason"]["code"] for wait in answer["waits"]["jobs"]] == ["capacity"]
    assert answer["after"] == {"starts": 2, "waits": 1, "evicted": 0}
    assert not Job.objects.exists()


def test_an_operator_may_think_of_nodes_and_sees_what_becomes_of_all(quay: Quay, api: Api) -> None:
    fill(quay)
    quay.submit("train", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    client, pool = api(quay.cast.otto), quay.pool.name
    more = post(client, {"changes": [{"add_nodes": {"pool": pool, "count": 1}}]}).json()
    assert [(start["job"]["name"], start["nodes"]) for start in more["starts"]["jobs"]] == [("train", ["more-1"])]
    gone = post(client, {"changes": [{"remove_node": {"pool": pool, "node": "node-1"}}]}).json()
    assert [job["job"]["name"] for job in gone["displaced"]["jobs"]] == ["filler"]
    refused = post(api(quay.cast.bob), {"changes": [{"remove_node": {"pool": pool, "node": "node-1"}}]})
    assert refused.status_code == 403


def test_a_booking_is_thought_of_before_it_is_made(cast: Cast, api: Api) -> None:
    quay = Quay(cast, nodes=[node_facts("node-1", gpus=4)])
    quay.submit("train", resources={"gpu": 2})
    booking = {"queue": "vision", "pool": quay.pool.name, "gpu": 4, "ends_at": "2099-01-01T00:00:00Z"}
    other = make_queue(cast.tenant, "day")
    kept = post(api(cast.bob), {"changes": [{"reserve": {**booking, "queue": str(other.pk)}}]}).json()
    assert [job["job"]["name"] for job in kept["starts_not"]["jobs"]] == ["train"]
    assert [wait["reason"]["code"] for wait in kept["waits"]["jobs"]] == ["advance_reservation"]
    wrong = post(api(cast.bob), {"changes": [{"reserve": {**booking, "gpu": 0, "ends_at": "2020-01-01T00:00:00Z"}}]})
    assert {field["path"] for field in wrong.json()["fields"]} == {"/changes/0/reserve/gpu", "/changes/0/reserve/ends_at"}


def test_what_becomes_of_others_is_a_number(quay: Quay, api: Api) -> None:
    quay.submit("own", resources={"cpu": 8, "memory": "1Gi"}, script=LONG)
    quay.turn(2)
    quay.submit("theirs", by=quay.cast.carol, resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    answer = post(api(quay.cast.bob), {"changes": [{"end": {"job": "own"}}]}).json()
    assert (answer["starts"]["jobs"], answer["starts"]["others"]) == ([], 1)


def test_a_mistake_names_the_field_that_it_is_in(quay: Quay, api: Api) -> None:
    mistakes = {
        "quota": {"queue": "x", "pool": "x", "resource": "x", "guarantee": -1, "deserved": -1, "ceiling": 1.5},
        "reserve": {"queue": "x", "pool": "x", "gpu": 1, "starts_at": "yesterday", "ends_at": 12},
        "policy": {"aging_seconds": -1, "starvation_guard_seconds": "soon"},
    }
    for kind, values in mistakes.items():
        fields = post(api(quay.cast.otto), {"changes": [{kind: values}]}).json()["fields"]
        assert len(fields) > 1
        assert all(field["message"].startswith(field["path"].rsplit("/", 1)[1] + " ") for field in fields), fields


@pytest.mark.parametrize(("old", "new"), [("booked", "backfill_depth"), ("patience_seconds", "starvation_guard_seconds")])
def test_a_field_by_its_old_name_is_refused_with_the_new_one(quay: Quay, api: Api, old: str, new: str) -> None:
    (mistake,) = post(api(quay.cast.otto), {"changes": [{"policy": {old: 2}}]}).json()["fields"]
    assert (mistake["path"], mistake["code"]) == (f"/changes/0/policy/{old}", "unknown_field")
    assert mistake["hint"] == f"It was renamed to {new}."


def test_every_mistake_is_told_at_its_place(quay: Quay, api: Api) -> None:
    theirs = fill(quay)
    running = quay.submit("ran", resources={"cpu": 1, "memory": "1Gi"})
    make_queue(quay.cast.tenant, "day")
    changes = [
        {"submit": {"spec": {"name": "idea", "resources": {"cpu": "many"}}}},
        {"end": {"job": str(theirs.id)}},
        {"rank": {"job": str(running.id)}},
        {"quota": {"queue": "nobody", "pool": "nowhere", "resource": "gold", "ceiling": -1}},
        {"quota": {"queue": "nobody", "pool": "nowhere", "resource": "gold", "ceiling": 1}},
        {"ask": {"job": "ran", "roles": {"boss": {"replicas": 1}}}},
        {"dream": {}},
        {"end": {"job": "ran", "why": 1}},
        {"release": "ran"},
    ]
    answer = post(api(quay.cast.bob), {"changes": changes})
    assert answer.status_code == 422
    assert {(field["path"], field["code"]) for field in answer.json()["fields"]} >= {
        ("/changes/1/end/job", "not_found"),
        ("/changes/2/rank", "invalid"),
        ("/changes/4/quota/queue", "not_found"),
        ("/changes/4/quota/pool", "not_found"),
        ("/changes/4/quota/resource", "not_found"),
        ("/changes/5/ask/roles/boss", "not_found"),
        ("/changes/6", "invalid"),
        ("/changes/7/end/why", "unknown_field"),
        ("/changes/8/release", "invalid"),
    }
    paths = {field["path"] for field in answer.json()["fields"]}
    assert any(path.startswith("/changes/0/submit/spec") for path in paths)
    assert "/changes/3/quota/ceiling" in paths


@pytest.mark.parametrize(
    "body", [{}, {"changes": []}, {"changes": [1]}, {"changes": [{}] * 51}, {"changes": {}}, {"chances": []}]
)
def test_what_is_no_question_is_refused(quay: Quay, api: Api, body: Any) -> None:
    assert post(api(quay.cast.bob), body).status_code == 422


def test_limits_that_would_break_the_tree_are_refused_at_their_change(quay: Quay, api: Api) -> None:
    queue = make_queue(quay.cast.tenant, "day")
    change = {"queue": str(queue.pk), "pool": quay.pool.name, "resource": "cpu_millis", "guarantee": 10**9}
    answer = post(api(quay.cast.bob), {"changes": [{"quota": change}]})
    assert answer.status_code == 422
    assert {field["path"] for field in answer.json()["fields"]} == {"/changes/0/quota/guarantee", "/changes/0/quota/deserved"}
    top = {**change, "queue": str(top_queue(quay.cast.tenant).pk)}
    answer = post(api(quay.cast.bob), {"changes": [{"quota": top}]})
    assert answer.json()["fields"][0]["message"] == "The limits of a queue above do not allow it."


def test_a_dry_run_of_limits_says_which_jobs_would_start(quay: Quay, api: Api) -> None:
    queue = make_queue(quay.cast.tenant, "day")
    limit(queue, quay.pool.pk, cpu_millis=4000)
    quay.submit("first", queue="day", resources={"cpu": 2, "memory": "1Gi"}, script=LONG)
    quay.turn(2)
    quay.submit("train", queue="day", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn()
    change = {"queue": str(queue.pk), "pool": str(quay.pool.pk), "resource": "cpu_millis", "ceiling": 6000}
    body = json.dumps({"changes": [change], "dry_run": True})
    answer = api(quay.cast.alice).post("/api/v1/quota/edits", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    assert [(job["what"], job["name"]) for job in answer.json()["forecast"]["jobs"]] == [("starts", "train")]
