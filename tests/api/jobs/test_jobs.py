"""Jobs over HTTP: submitting, listing, changing, stopping, running again; good input and bad."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent
from clusters import isolation_facts
from clusters.engines.fake import Script
from clusters.models import Cluster, Node
from clusters.services import forget_engines, taint_node
from jobs.models import Attempt, Job, StoredSpec
from tenants.identity.services.secrets import set_secret
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast, limit, make_queue, make_token, now, top_queue

pytestmark = pytest.mark.database

Api = Callable[..., Any]
SPEC = {"name": "train", "command": "python train.py"}


def post(client: Any, path: str, body: Any, **headers: str) -> Any:
    return client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", headers=headers)


def patch(client: Any, path: str, body: Any, **headers: str) -> Any:
    return client.patch(f"/api/v1{path}", json.dumps(body), content_type="application/json", headers=headers)


def get(client: Any, path: str) -> Any:
    return client.get(f"/api/v1{path}")


# --- Submitting ------------------------------------------------------------------------------------------------------


def test_a_submission_answers_with_the_job_and_why_it_waits(quay: Quay, api: Api) -> None:
    response = post(api(quay.cast.bob), "/jobs", {"spec": SPEC})
    assert response.status_code == 201, response.content
    job = response.json()
    assert (job["state"], job["reason"]["code"], job["user"]["name"]) == ("queued", "scheduling", "bob")
    assert response["Location"] == f"/api/v1/jobs/{job['id']}"
    assert response["ETag"] == '"1"'
    audit = AuditEvent.objects.get(verb="job.submit")
    assert (audit.actor_name, audit.target_id, audit.count) == ("bob", job["id"], 1)


def test_a_waiting_job_knows_its_place_in_the_queue(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    quay.submit("held", hold=True)
    quay.submit("filler", resources={"cpu": 8}, script=Script(duration_seconds=60))
    quay.turn(2)
    places = [post(client, "/jobs", {"spec": {**SPEC, "name": name}}).json()["place"] for name in ("first", "second")]
    urgent = post(api(quay.cast.alice), "/jobs", {"spec": {**SPEC, "priority": "high"}}).json()["place"]
    assert (places, urgent) == ([1, 2], 1)
    assert get(client, "/jobs/filler").json()["place"] is None


def test_json_and_yaml_store_the_same_bytes(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    first = post(client, "/jobs", {"spec": {**SPEC, "resources": {"memory": "2Gi", "cpu": 1}}}).json()
    text = "resources: {cpu: 1000m, memory: 2048Mi}\ncommand: python train.py\nname: train\n"
    second = client.post("/api/v1/jobs", text, content_type="application/yaml").json()
    assert first["spec_digest"] == second["spec_digest"]
    documents = [get(client, f"/jobs/{job['id']}/spec").content for job in (first, second)]
    assert documents[0] == documents[1]
    assert StoredSpec.objects.count() == 1


def test_a_dry_run_answers_with_the_plan_and_stores_nothing(quay: Quay, api: Api) -> None:
    response = post(api(quay.cast.bob), "/jobs?dry_run=true", {"spec": {**SPEC, "replicas": 3, "resources": {"cpu": 2}}})
    assert response.status_code == 200
    plan = response.json()
    assert (plan["total"]["cpu_millis"], plan["roles"][0]["replicas"], plan["queue"]["name"]) == (6000, 3, "vision")
    assert not Job.objects.exists()


def test_all_errors_of_a_spec_come_at_once_with_their_places(quay: Quay, api: Api) -> None:
    spec = {"name": "a b", "command": "", "replica": 2, "resources": {"cpu": "-1"}, "max_runtime": "soon"}
    response = post(api(quay.cast.bob), "/jobs", {"spec": spec})
    assert response.status_code == 422
    problem = response.json()
    assert response["Content-Type"].startswith("application/problem+json")
    assert {field["path"] for field in problem["fields"]} >= {"/name", "/replica", "/max_runtime", "/resources/cpu"}
    assert all(field["message"] and field["code"] for field in problem["fields"])


def test_everything_a_spec_names_is_looked_up_before_anything_is_stored(quay: Quay, api: Api) -> None:
    spec = {
        **SPEC,
        "queue": "nowhere",
        "image": "missing",
        "pool": "moon",
        "secrets": {"TOKEN": None},
        "mounts": [{"volume": "void", "path": "/data"}],
        "after": ["nobody"],
        "code": {"snapshot": "0" * 64},
        "resources": {"gpu": "tpu9:1"},
    }
    problem = post(api(quay.cast.bob), "/jobs", {"spec": spec}).json()
    paths = {field["path"] for field in problem["fields"]}
    assert paths >= {"/queue", "/image", "/pool", "/secrets", "/mounts/0/volume", "/after/0", "/roles/worker/resources/gpu"}
    assert any(path.startswith("/code") for path in paths)
    assert not Job.objects.exists()


def test_a_job_runs_for_at_most_what_its_queue_allows(quay: Quay, api: Api) -> None:
    client, manager = api(quay.cast.bob), api(quay.cast.alice)
    short = make_queue(quay.cast.tenant, "short")
    free = make_queue(quay.cast.tenant, "free")
    assert put_rules(api(quay.cast.alice), short, 3600).status_code == 200
    refused = post(client, "/jobs", {"spec": {**SPEC, "queue": "short", "max_runtime": "2h"}})
    assert refused.status_code == 422
    assert refused.json()["fields"][0]["code"] == "runtime_too_long"
    assert "max_runtime 1h or less" in refused.json()["hint"]

    short_job = post(client, "/jobs", {"spec": {**SPEC, "queue": "short", "hold": True}}).json()
    assert short_job["max_runtime_seconds"] == 3600, "what asks for nothing gets the queue's limit"
    other = post(client, "/jobs", {"spec": {**SPEC, "queue": "short", "hold": True, "max_runtime": "30m"}}).json()
    assert other["max_runtime_seconds"] == 1800
    assert patch(manager, f"/jobs/{other['id']}", {"max_runtime_seconds": 7200}).status_code == 422
    assert patch(manager, f"/jobs/{other['id']}", {"max_runtime_seconds": 3600}).status_code == 200

    endless = post(client, "/jobs", {"spec": {**SPEC, "queue": "free", "hold": True}}).json()
    assert endless["max_runtime_seconds"] is None
    assert patch(client, f"/jobs/{endless['id']}", {"queue": str(short.pk)}).status_code == 422
    assert patch(client, f"/jobs/{endless['id']}", {"queue": str(short.pk), "max_runtime_seconds": 60}).status_code == 200
    assert put_rules(manager, free, 60).status_code == 200
    late = post(client, "/jobs", {"spec": {**SPEC, "queue": "free", "max_runtime": "2h"}})
    assert late.status_code == 422, "a new limit counts for the very next job"


def test_whoever_submits_without_a_max_runtime_is_told_which_time_is_planned_with(quay: Quay, api: Api) -> None:
    client, manager = api(quay.cast.bob), api(quay.cast.alice)
    night, day = make_queue(quay.cast.tenant, "night"), make_queue(quay.cast.tenant, "day")
    assert put_rules(manager, night, 7200, "default_runtime_seconds").status_code == 200

    def planned(path: str = "/jobs", **spec: Any) -> tuple[int | None, int | None]:
        told = post(client, path, {"spec": {**SPEC, "hold": True, **spec}}).json()
        return told["max_runtime_seconds"], told["planned_runtime_seconds"]

    assert planned(queue="day") == (None, 86_400), "as the installation assumes"
    assert planned(queue="night") == planned("/jobs?dry_run=true", queue="night") == (None, 7200)
    assert (
        planned(queue="night", max_runtime="30m")
        == planned("/jobs?dry_run=true", queue="night", max_runtime="30m")
        == (1800, 1800)
    )
    job = post(client, "/jobs", {"spec": {**SPEC, "queue": "night", "hold": True, "array": {"size": 2}}}).json()
    assert set(Job.objects.filter(parent_id=job["id"]).values_list("cautious_seconds", "max_runtime_seconds")) == {(7200, None)}
    assert put_rules(manager, night, 600, "default_runtime_seconds").status_code == 200
    job = post(client, "/jobs", {"spec": {**SPEC, "queue": "night", "hold": True}}).json()
    assert job["planned_runtime_seconds"] == 600, "a new default counts for the very next job"
    assert get(client, f"/jobs/{job['id']}").json()["planned_runtime_seconds"] == 600
    assert patch(client, f"/jobs/{job['id']}", {"queue": str(day.pk)}).json()["planned_runtime_seconds"] == 86_400
    assert patch(client, f"/jobs/{job['id']}", {"queue": str(night.pk)}).json()["planned_runtime_seconds"] == 600
    assert patch(client, f"/jobs/{job['id']}", {"max_runtime_seconds": 60}).json()["planned_runtime_seconds"] == 60


def put_rules(client: Any, queue: Any, seconds: int, name: str = "max_runtime_seconds") -> Any:
    body = json.dumps({name: seconds})
    return client.put(f"/api/v1/queues/{queue.pk}/rules", body, content_type="application/json")


@pytest.mark.capability("38", "A refusal brings the edit that helps")
def test_a_job_larger_than_its_queue_is_refused_with_the_numbers(quay: Quay, api: Api) -> None:
    limit(top_queue(quay.cast.tenant), quay.pool.pk, cpu_millis=4000)
    response = post(api(quay.cast.bob), "/jobs", {"spec": {**SPEC, "resources": {"cpu": 6}}})
    problem = response.json()
    assert (response.status_code, problem["code"]) == (422, "quota_exceeded")
    assert "6" in problem["detail"]
    assert "4" in problem["detail"]
    assert "vision" in problem["detail"]


def test_secrets_are_named_in_the_spec_and_never_stored_in_it(quay: Quay, api: Api) -> None:
    alice = quay.cast.alice
    set_secret(actor=alice.actor, tenant_id=quay.cast.tenant.pk, name="TOKEN", value="s3cr3t-canary", now=quay.now)
    job = post(api(quay.cast.bob), "/jobs", {"spec": {**SPEC, "secrets": {"TOKEN": None}}}).json()
    assert "s3cr3t-canary" not in StoredSpec.objects.get(digest=job["spec_digest"]).document


def test_the_same_idempotency_key_makes_one_job(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    first = post(client, "/jobs", {"spec": SPEC}, **{"Idempotency-Key": "once"})
    again = post(client, "/jobs", {"spec": SPEC}, **{"Idempotency-Key": "once"})
    other = post(client, "/jobs", {"spec": {**SPEC, "name": "x"}}, **{"Idempotency-Key": "once"})
    assert first.json()["id"] == again.json()["id"]
    assert again["Idempotency-Replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Job.objects.count() == 1


def test_viewers_and_strangers_cannot_submit(quay: Quay, api: Api) -> None:
    assert post(api(quay.cast.vera), "/jobs", {"spec": SPEC, "tenant": "vision"}).status_code == 403
    assert post(api(quay.cast.carol), "/jobs", {"spec": SPEC, "tenant": "vision"}).status_code == 404
    assert post(api(), "/jobs", {"spec": SPEC}).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[",
        "null",
        '{"spec": {"command": NaN}}',
        '{"spec": 1, "spec": 2}',
        "[" * 5000 + "]" * 5000,
        '{"spec": "x"}',
        '{"nonsense": 1}',
    ],
)
def test_a_body_that_is_no_submission_is_refused_in_words(quay: Quay, api: Api, body: str) -> None:
    response = api(quay.cast.bob).post("/api/v1/jobs", body, content_type="application/json")
    assert response.status_code in (400, 413, 422)
    assert response.json()["code"]
    assert not Job.objects.exists()


@pytest.mark.parametrize("text", ["a: &x [1]\nb: *x\n", "!!python/object:os.system {}", "{a: 1, a: 2}", "\t- bad", "- " * 3000])
def test_a_job_file_that_plays_tricks_is_refused(quay: Quay, api: Api, text: str) -> None:
    response = api(quay.cast.bob).post("/api/v1/jobs", text, content_type="application/yaml")
    assert response.status_code in (400, 413, 422)


# --- Batches and arrays ----------------------------------------------------------------------------------------------


def test_a_batch_stores_all_or_nothing(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    items = [{"name": f"seed-{seed}", "env": {"SEED": str(seed)}} for seed in range(50)]
    response = post(client, "/jobs:batch", {"spec": SPEC, "items": items})
    assert response.status_code == 201, response.content
    assert response.json()["count"] == 50
    assert Job.objects.count() == 50
    assert AuditEvent.objects.get(verb="job.submit_batch").count == 50
    bad = [*items, {"name": "a b"}, {"replicas": 2}]
    refused = post(client, "/jobs:batch", {"spec": SPEC, "items": bad})
    assert refused.status_code == 422
    assert {field["path"].split("/")[2] for field in refused.json()["fields"]} == {"50", "51"}
    assert Job.objects.count() == 50


def test_a_batch_costs_a_constant_number_of_statements(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)

    def statements(count: int) -> int:
        items = [{"name": f"job-{count}-{number}"} for number in range(count)]
        with CaptureQueriesContext(connection) as queries:
            assert post(client, "/jobs:batch", {"spec": SPEC, "items": items}).status_code == 201
        return len(queries)

    statements(1)
    assert statements(400) <= statements(20) + 3


def test_ndjson_takes_one_spec_a_line_and_names_bad_lines(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    lines = "\n".join(json.dumps({**SPEC, "name": f"line-{number}"}) for number in range(3))
    assert client.post("/api/v1/jobs:batch", lines, content_type="application/x-ndjson").json()["count"] == 3
    refused = client.post("/api/v1/jobs:batch", lines + "\n{oops\n", content_type="application/x-ndjson")
    assert refused.status_code == 422
    assert "Line 4" in refused.json()["fields"][0]["message"]


def test_an_array_is_a_parent_with_children_that_are_listed_apart(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    parent = post(client, "/jobs", {"spec": {**SPEC, "array": {"size": 5, "parallelism": 2}}}).json()
    assert parent["array"] == {"size": 5, "parallelism": 2, "index": None}
    assert parent["counts"] == {"queued": 5}
    assert [job["id"] for job in get(client, "/jobs").json()["items"]] == [parent["id"]]
    assert get(client, "/jobs/train").json()["id"] == parent["id"]
    children = get(client, f"/jobs?parent={parent['id']}").json()["items"]
    assert sorted(child["array"]["index"] for child in children) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [0, -1, 1.5, "many", 10**9, 10**30])
def test_an_array_of_impossible_size_is_refused(quay: Quay, api: Api, size: Any) -> None:
    assert post(api(quay.cast.bob), "/jobs", {"spec": {**SPEC, "array": {"size": size}}}).status_code in (400, 422)


# --- Finding ---------------------------------------------------------------------------------------------------------


def test_lists_are_paged_by_key_and_filtered(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    for number in range(7):
        quay.submit(f"job-{number}", tags=["even"] if number % 2 == 0 else [], labels={"parity": str(number % 2)})
    seen: list[str] = []
    path = "/jobs?limit=3"
    while path:
        body = get(client, path).json()
        seen += [job["name"] for job in body["items"]]
        path = f"/jobs?limit=3&cursor={body['next']}" if body["next"] else ""
    assert seen == [f"job-{number}" for number in reversed(range(7))]
    assert len(get(client, "/jobs?tag=even").json()["items"]) == 4
    assert not get(client, "/jobs?tag=EVEN").json()["items"]
    assert not get(client, "/jobs?tag=eve").json()["items"]
    assert len(get(client, "/jobs?label=parity:1").json()["items"]) == 3
    assert len(get(client, "/jobs?state=queued&user=bob&queue=vision").json()["items"]) == 7
    assert get(client, "/jobs?name=job-3").json()["items"][0]["name"] == "job-3"
    assert get(client, "/jobs?state=running").json()["items"] == []
    assert get(client, "/jobs?state=sleeping").status_code == 422
    assert get(client, "/jobs?colour=red").status_code == 422


def test_a_job_is_found_by_id_prefix_and_name(quay: Quay, api: Api) -> None:
    job = quay.submit("digits")
    client = api(quay.cast.bob)
    for text in (str(job.id), "digits"):
        assert get(client, f"/jobs/{text}").json()["id"] == str(job.id)
    assert get(client, f"/jobs/{str(job.id)[:30]}").json()["id"] == str(job.id)
    assert get(client, "/jobs/nobody").status_code == 404


def test_the_number_of_queries_does_not_depend_on_the_rows(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert get(client, "/jobs?limit=100").status_code == 200
        return len(captured)

    quay.submit("one", script=Script(duration_seconds=60))
    quay.turn(2)
    queries()  # The first request of a token also notes that it is used.
    few = queries()
    for number in range(20):
        quay.submit(f"job-{number}", resources={"cpu": "100m", "memory": "100Mi"}, script=Script(duration_seconds=60))
    quay.turn(2)
    assert queries() == few <= 8


# --- Changing --------------------------------------------------------------------------------------------------------


def test_what_may_change_changes_and_what_is_stale_is_refused(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    job = quay.submit(hold=True)
    make_queue(quay.cast.tenant, "night")
    changed = patch(client, f"/jobs/{job.id}", {"priority": 400, "tags": ["b", "a"], "queue": "night", "max_runtime_seconds": 60})
    assert changed.status_code == 200, changed.content
    body = changed.json()
    assert (body["priority"], body["tags"], body["queue"]["name"], body["version"]) == (400, ["a", "b"], "night", 2)
    assert patch(client, f"/jobs/{job.id}", {"priority": 1}, **{"If-Match": '"1"'}).status_code == 412
    assert patch(client, f"/jobs/{job.id}", {"state": "running"}).status_code == 422
    assert patch(client, f"/jobs/{job.id}", {"max_runtime_seconds": 600}).status_code == 403
    assert patch(api(quay.cast.alice), f"/jobs/{job.id}", {"max_runtime_seconds": 600}).status_code == 200


def test_a_released_job_starts_and_a_running_one_cannot_be_held(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    job = quay.submit(hold=True, script=Script(duration_seconds=60))
    quay.turn()
    assert (quay.state(job), quay.reason(job)) == ("queued", "held")
    assert patch(client, f"/jobs/{job.id}", {"hold": False}).status_code == 200
    quay.turn(2)
    assert quay.state(job) == "running"
    assert patch(client, f"/jobs/{job.id}", {"hold": True}).status_code == 409


def test_tags_come_and_go(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    job = quay.submit()
    for _ in range(2):
        assert client.put(f"/api/v1/jobs/{job.id}/tags/keep").json()["tags"] == ["keep"]
    assert client.delete(f"/api/v1/jobs/{job.id}/tags/keep").json()["tags"] == []
    assert client.put(f"/api/v1/jobs/{job.id}/tags/%20").status_code == 422


@pytest.mark.capability("38", "Whoever stops a job may say why, and whoever sees the job reads it")
def test_the_reason_of_a_stop_is_told_with_the_job_and_its_events(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    waiting, running = quay.submit("waiting", hold=True), quay.submit("running", script=Script(duration_seconds=None))
    quay.turn(3)
    told = post(client, f"/jobs/{waiting.id}/stop", {"reason": "wrong data"}).json()["reason"]["text"]
    assert told == "Stopped before it started by bob: wrong data"
    assert post(client, f"/jobs/{running.id}/stop", {"reason": "no longer needed"}).status_code == 202
    quay.settle()
    job = get(client, f"/jobs/{running.id}").json()
    assert (job["state"], job["reason"]["text"]) == ("stopped", "Stopped by bob: no longer needed")
    assert job["reason"]["detail"]["note"] == "no longer needed"
    events = get(client, f"/jobs/{running.id}/events").json()["items"]
    assert [event["detail"].get("note") for event in events].count("no longer needed") == 4  # The attempt and the job, twice.
    texts = [event["reason_text"] for event in events]
    assert "A stop was requested by bob: no longer needed" in texts
    assert "Stopped by bob: no longer needed" in texts
    chinese = client.get(f"/api/v1/jobs/{running.id}/events", headers={"Accept-Language": "zh-CN"}).json()["items"]
    assert "由 bob 请求停止：no longer needed" in [event["reason_text"] for event in chinese]
    assert AuditEvent.objects.get(verb="job.stop", target_id=str(running.id)).after["reason"] == "no longer needed"
    for wrong in ("x" * 201, "two\nlines", 5):
        assert post(client, f"/jobs/{waiting.id}/stop", {"reason": wrong}).status_code == 422


@pytest.mark.capability("38", "What to do about an end is told in English and Chinese")
def test_how_a_job_ended_and_what_kept_it_apart_are_told_in_the_language_of_the_reader(quay: Quay, api: Api) -> None:
    job = quay.submit("wrong", script=Script(code=127, duration_seconds=1))
    quay.settle()
    Attempt.objects.filter(job_id=job.id).update(isolation=isolation_facts.OWN_USERS.en)
    client = api(quay.cast.bob)
    for path in (f"/jobs/{job.id}", f"/jobs/{job.id}/attempts/1"):
        told = client.get(f"/api/v1{path}", HTTP_ACCEPT_LANGUAGE="zh-CN").json()
        assert told["exit"]["hint"] == "请检查拼写，以及镜像中是否有该程序。"
        assert told["isolation"] == isolation_facts.fact_in(isolation_facts.OWN_USERS.en, "zh") != isolation_facts.OWN_USERS.en
        assert get(client, path).json()["exit"]["hint"] == "Check the spelling, and that the image has the program."
    reason = client.get(f"/api/v1/jobs/{job.id}", HTTP_ACCEPT_LANGUAGE="zh-CN").json()["reason"]
    assert reason["hint"] == "请检查拼写，以及镜像中是否有该程序。"


def test_what_a_submission_is_refused_for_is_told_in_the_language_of_the_reader(quay: Quay, api: Api) -> None:
    body = {"spec": {"name": "train", "command": "true", "pool": "nowhere", "image": "nothing"}}
    told = api(quay.cast.bob).post("/api/v1/jobs", body, format="json", HTTP_ACCEPT_LANGUAGE="zh-CN")
    assert (told.status_code, told["Content-Language"]) == (422, "zh")
    assert told.json()["detail"].startswith("作业 train 中有 2 处无法使用；")
    [pool] = [field for field in told.json()["fields"] if field["path"] == "/pool"]
    assert pool["message"].startswith("没有资源池 nowhere；")
    refused = api(quay.cast.vera).post("/api/v1/jobs", body, format="json", HTTP_ACCEPT_LANGUAGE="zh-CN").json()
    assert (refused["title"], refused["detail"]) == ("您的角色无权执行此操作", "vera 无权在租户 vision 中提交作业。")
    assert api(quay.cast.bob).post("/api/v1/jobs", body, format="json").json()["detail"].startswith("Job train names 2 things")


def test_members_stop_their_own_jobs_and_managers_any(quay: Quay, api: Api) -> None:
    other = quay.submit("alices", by=quay.cast.alice, hold=True)
    assert post(api(quay.cast.bob), f"/jobs/{other.id}/stop", {}).status_code == 403
    assert post(api(quay.cast.vera), f"/jobs/{other.id}/stop", {}).status_code == 403
    assert post(api(quay.cast.carol), f"/jobs/{other.id}/stop", {}).status_code == 404
    own = quay.submit("bobs", hold=True)
    assert post(api(quay.cast.bob), f"/jobs/{own.id}/stop", {}).json()["state"] == "stopped"
    assert post(api(quay.cast.alice), f"/jobs/{other.id}/stop", {"grace_seconds": 5}).json()["state"] == "stopped"
    assert post(api(quay.cast.alice), f"/jobs/{other.id}/stop", {}).status_code == 202
    assert post(api(quay.cast.alice), f"/jobs/{other.id}/stop", {"grace_seconds": -1}).status_code == 422


# --- Again -----------------------------------------------------------------------------------------------------------


@pytest.mark.capability("38", "A rerun shows the difference")
def test_a_rerun_repeats_the_spec_with_changes_and_shows_the_difference(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    job = quay.submit(script=Script(code=1))
    quay.settle()
    plan = post(client, f"/jobs/{job.id}/rerun?dry_run=true", {"changes": {"env": {"SEED": "8"}}}).json()
    assert plan["changes"][0]["path"].startswith("/env")
    again = post(client, f"/jobs/{job.id}/rerun", {"changes": {"env": {"SEED": "8"}}})
    assert again.status_code == 201
    assert again.json()["origin"] == {"id": str(job.id), "kind": "rerun"}
    same = post(client, f"/jobs/{job.id}/rerun", {}).json()
    assert same["spec_digest"] == get(client, f"/jobs/{job.id}").json()["spec_digest"]


@pytest.mark.capability("40", "A clone keeps the spec and asks for name and secrets again")
def test_a_clone_takes_a_name_of_its_own_and_asks_for_secrets_again(quay: Quay, api: Api) -> None:
    set_secret(actor=quay.cast.alice.actor, tenant_id=quay.cast.tenant.pk, name="TOKEN", value="x", now=quay.now)
    client = api(quay.cast.bob)
    job = quay.submit(by=quay.cast.alice, secrets={"TOKEN": None})
    refused = post(client, f"/jobs/{job.id}/clone", {})
    assert (refused.status_code, refused.json()["fields"][0]["code"]) == (422, "secrets_not_inherited")
    cloned = post(client, f"/jobs/{job.id}/clone", {"changes": {"secrets": {"TOKEN": None}}}).json()
    assert (cloned["name"], cloned["user"]["name"], cloned["origin"]["kind"]) == ("train-clone", "bob", "clone")


# --- History ---------------------------------------------------------------------------------------------------------


@pytest.mark.capability("34", "The phases of a job have a cause and a length, and add up to its life")
def test_the_phases_of_a_timeline_add_up_to_the_age(quay: Quay, api: Api) -> None:
    job = quay.submit(script=Script(duration_seconds=7))
    quay.settle()
    found = quay.job(job.id)
    body = get(api(quay.cast.vera), f"/jobs/{job.id}/timeline").json()
    assert [phase["phase"] for phase in body["phases"]] == ["queued", "admitted", "starting", "running"]
    assert [phase["reason_text"] for phase in body["phases"]] == [
        "Submitted.", "It was placed in pool cpu.", "The cluster has accepted it.", "All its tasks are running.",
    ]  # fmt: skip
    assert found.ended_at is not None
    assert body["seconds"] == pytest.approx((found.ended_at - found.submitted_at).total_seconds())


def test_attempts_tasks_events_and_logs_tell_what_happened(quay: Quay, api: Api) -> None:
    client = api(quay.cast.vera)
    job = quay.submit(replicas=2, resources={"cpu": 1, "memory": "1Gi"}, script=Script(stdout=b"one\ntwo\n"))
    quay.settle()
    attempt = get(client, f"/jobs/{job.id}/attempts").json()["items"][0]
    assert (attempt["number"], attempt["outcome"], attempt["logs_complete"], len(attempt["tasks"])) == (1, "succeeded", True, 2)
    assert get(client, f"/jobs/{job.id}/attempts/1").json()["id"] == attempt["id"]
    assert get(client, f"/jobs/{job.id}/attempts/2").status_code == 404
    assert [task["index"] for task in get(client, f"/jobs/{job.id}/tasks").json()["items"]] == [0, 1]
    events = get(client, f"/jobs/{job.id}/events").json()["items"]
    assert [event["to_state"] for event in events if event["subject"]["kind"] == "job"][-1] == "succeeded"
    logs = get(client, f"/jobs/{job.id}/logs?role=worker&index=1").json()
    assert ("".join(item["text"] for item in logs["items"]), logs["complete"]) == ("one\ntwo\n", True)
    raw = client.get(f"/api/v1/jobs/{job.id}/attempts/1/tasks/worker/0/logs/stdout", headers={"Range": "bytes=4-6"})
    assert (raw.status_code, b"".join(raw.streaming_content)) == (206, b"two")


@pytest.mark.capability("37", "A published JSON Schema says the same as the parser")
def test_the_schema_of_job_files_is_public(api: Api) -> None:
    schema = api().get("/api/v1/schemas/job-spec").json()
    assert schema["$schema"].endswith("2020-12/schema")
    assert "roles" in schema["properties"]


def test_a_dry_run_refuses_a_job_that_would_wait_for_ever(cast: Cast, api: Api) -> None:
    Quay(cast, nodes=[node_facts("node-1", cores=8), node_facts("node-2", cores=8)])
    client = api(cast.bob)
    assert post(client, "/jobs?dry_run=true", {"spec": SPEC}).json()["warnings"] == []
    wide = {**SPEC, "resources": {"cpu": 12, "memory": "1Gi"}}  # Less than both machines have, more than one.
    assert "train can never start. It needs 12 cores" in post(client, "/jobs?dry_run=true", {"spec": wide}).json()["detail"]
    elsewhere = {**SPEC, "placement": {"labels": {"hall": ["a", "b"]}}}
    answer = post(client, "/jobs?dry_run=true", {"spec": elsewhere})
    assert answer.status_code == 422
    assert "can never start. It requests nodes with hall=a|b" in answer.json()["detail"]
    for node in Node.objects.all():
        taint_node(actor=cast.alice.actor, node_id=node.pk, taints={"fpga": "keep-out"}, now=now())
    answer = post(client, "/jobs?dry_run=true", {"spec": SPEC}).json()
    (warning,) = answer["warnings"]
    assert warning.startswith("It would not start. The nodes of pool cpu that could hold it have taints")
    chinese = client.post("/api/v1/jobs?dry_run=true", {"spec": SPEC}, format="json", HTTP_ACCEPT_LANGUAGE="zh-CN").json()
    assert chinese["warnings"][0].startswith("它不会启动。")
    assert chinese["plan"] == answer["plan"]  # A call in another language is held to the same plan.


def test_a_job_file_with_mistakes_is_told_of_each_in_chinese(cast: Cast, api: Api) -> None:
    Quay(cast)
    spec = {"command": "x", "max_runtime": "2 h", "replicas": "4", "env": {"A-B": None}, "gpus": 2, "tags": "nightly"}
    refused = api(cast.bob).post("/api/v1/jobs", {"spec": spec}, format="json", HTTP_ACCEPT_LANGUAGE="zh-CN")
    told = {field["path"]: (field["message"], field.get("hint", "")) for field in refused.json()["fields"]}
    assert refused["Content-Language"] == "zh"
    assert told["/max_runtime"][0] == 'max_runtime 须为时长，如 2h 或 90s，而非"2 h"。'
    assert told["/max_runtime"][1].startswith("请写 max_runtime: 2h。单位：")
    assert told["/replicas"] == ('replicas 须为整数，而非"4"。', "请写 replicas: 4，不加引号。")
    assert told["/gpus"] == ('此处没有键 "gpus"。', "gpu 应写在 resources 下。")
    assert told["/tags"] == ('tags 须为列表，而非"nightly"。', "请写 tags: [nightly]。")


@pytest.mark.capability("71", "Exclusive cores that cannot be had are told with numbers, at submission and in the queue")
def test_a_dry_run_says_that_cores_of_its_own_are_not_to_be_had_and_half_ones_are_refused(cast: Cast, api: Api) -> None:
    giving = node_facts("giving", cores=4, labels={"exclusive_cores": "4"})
    Quay(cast, nodes=[node_facts("sharing", cores=4), giving])
    client = api(cast.bob)

    def asking(cpu: object, replicas: int = 1) -> dict[str, object]:
        resources = {"cpu": cpu, "memory": "1Gi", "cpu_exclusive": True}
        return {"spec": {**SPEC, "replicas": replicas, "resources": resources}}

    assert post(client, "/jobs?dry_run=true", asking(4)).json()["warnings"] == []
    refusal = post(client, "/jobs?dry_run=true", asking(4, 2)).json()["detail"]
    assert "can never start. Each task requests 4 exclusive cores; 1 node of pool cpu offers them" in refusal
    refused = post(client, "/jobs", asking("1500m"))
    assert refused.status_code == 422
    (field,) = refused.json()["fields"]
    assert (field["path"], field["code"]) == ("/roles/worker/resources/cpu", "whole_cores")


def test_filters_that_name_nothing_known_are_refused_and_not_answered_with_nothing(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    job = quay.submit(by=quay.cast.bob)
    quay.settle()
    for path in ("/jobs?kind=bach", "/jobs?label=team", f"/jobs/{job.id}/logs?stream=out"):
        assert get(client, path).status_code == 422, path


def test_the_log_of_a_job_that_never_started_is_complete_when_the_job_is_over(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    job = quay.submit(by=quay.cast.bob)
    assert get(client, f"/jobs/{job.id}/logs").json()["complete"] is False
    post(client, f"/jobs/{job.id}/stop", {})
    assert get(client, f"/jobs/{job.id}/logs").json()["complete"] is True


def test_a_reader_waits_for_no_output_of_a_cluster_that_was_declared_lost(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    job = quay.submit(by=quay.cast.bob, script=Script(duration_seconds=600))
    quay.turn(2)
    Cluster.objects.filter(pk=quay.cluster.pk).update(is_enabled=False, lost_at=quay.now)
    forget_engines()
    assert get(client, f"/jobs/{job.id}/logs").json()["complete"] is False  # It has not ended yet.
    quay.pass_time(1)
    quay.turn(2)
    assert get(client, f"/jobs/{job.id}/logs").json()["complete"] is True


def test_a_viewer_hears_which_role_is_missing_and_a_token_which_scope(quay: Quay, api: Api) -> None:
    refused = post(api(quay.cast.vera), "/jobs", {"spec": SPEC})
    assert refused.status_code == 403
    assert "role member" in refused.json()["hint"]
    refused = post(api(make_token(quay.cast.bob.user, scopes=("read",)).text), "/jobs", {"spec": SPEC})
    assert refused.status_code == 403
    assert refused.json()["detail"] == "This token's scopes do not include jobs."
