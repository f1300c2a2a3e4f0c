"""Templates over HTTP: kept, found, filled in, published and deleted; by whom, and what is refused how."""

from __future__ import annotations

from typing import Any

import pytest

from activity.models import AuditEvent, Cursor
from jobs.models import Job, Template
from jobs.services.shipped_templates import LATER, SHIPPED
from jobs.services.templates import delete_template, ensure_shipped_templates, update_template
from kernel.errors import Conflict, NotFound
from tests.factories.tenants import now

pytestmark = pytest.mark.database
PATH = "/api/v1/templates"
BODY: dict[str, Any] = {
    "name": "train",
    "title": "Train",
    "title_zh": "训练",
    "icon": "flame",
    "tags": ["vision"],
    "parameters": [
        {"name": "rate", "type": "number", "default": 0.1, "minimum": 0, "maximum": 1},
        {"name": "cores", "type": "integer", "default": 1, "minimum": 1, "maximum": 8, "required": True},
    ],
    "spec": {
        "name": "train",
        "command": "python train.py --rate ${{ parameters.rate }}",
        "resources": {"cpu": "${{ parameters.cores }}"},
    },
}


def keep(api, person, **changes):
    return api(person).post(PATH, {**BODY, **changes}, format="json")


@pytest.mark.capability("107", "Templates have parameters, which are filled in as data and checked like any job")
def test_a_member_keeps_one_and_whoever_belongs_fills_it_in(api, cast):
    made = keep(api, cast.bob)
    assert made.status_code == 201, made.data
    assert (made.data["tenant"]["name"], made.data["owner"]["name"], made.data["version"]) == ("vision", "bob", 1)
    assert made.data["may_edit"]
    assert not made.data["may_publish"]
    path = f"{PATH}/{made.data['id']}"

    filled = api(cast.vera).post(f"{path}/render", {"parameters": {"cores": 4}, "name": "mine"}, format="json")

    assert filled.status_code == 200, filled.data
    assert filled.data["spec"] == {
        "name": "mine",
        "command": "python train.py --rate 0.1",
        "resources": {"cpu": 4},
    }
    assert filled.data["problems"] == []
    api(cast.vera).post(f"{path}/render", {"preview": True}, format="json")
    assert api(cast.vera).get(path).data["uses"] == 1
    assert api(cast.bob).post("/api/v1/jobs", {"spec": filled.data["spec"]}, format="json").status_code == 201
    assert api(cast.vera).patch(path, {"title": "x"}, format="json").status_code == 403
    assert api(cast.carol).get(path).status_code == 404
    assert api(cast.carol).get(PATH).data["items"] == []
    assert AuditEvent.objects.filter(verb="template.create").count() == 1


def test_a_members_rights_end_the_moment_a_template_is_published(api, cast):
    """The member was asked about a template of the tenant's; another process publishes it before it is changed."""
    before = Template.objects.get(id=keep(api, cast.bob).data["id"])
    assert api(cast.otto).post(f"{PATH}/{before.pk}/publish").status_code == 200

    with pytest.raises(Conflict, match="published meanwhile"):
        update_template(actor=cast.bob.actor, template=before, changes={"title": "x"}, expected_version=None, now=now())
    with pytest.raises(Conflict, match="published meanwhile"):
        delete_template(actor=cast.bob.actor, template=before, now=now())
    delete_template(actor=cast.otto.actor, template=Template.objects.get(id=before.pk), now=now())
    with pytest.raises(NotFound):
        delete_template(actor=cast.bob.actor, template=before, now=now())


@pytest.mark.capability("107", "Templates have parameters, which are filled in as data and checked like any job")
def test_what_is_wrong_is_told_at_once(api, cast):
    refused = keep(
        api, cast.bob, name="Bad name", tags=["ok", "not ok"], icon="<b>", spec={"command": "x", "replicas": 0, "no": 1}
    )
    assert {field["path"] for field in refused.json()["fields"]} == {"/name", "/tags/1", "/icon", "/spec/replicas", "/spec/no"}
    made = keep(api, cast.bob).data
    refused = api(cast.bob).post(f"{PATH}/{made['id']}/render", {"parameters": {"rate": 7, "cores": "x", "z": 1}}, format="json")
    assert refused.status_code == 422
    assert {field["path"] for field in refused.json()["fields"]} == {"/parameters/rate", "/parameters/cores", "/parameters/z"}
    assert keep(api, cast.bob).status_code == 409


def test_problems_of_the_job_come_with_the_job(api, cast):
    image = {"name": "image", "type": "string"}
    made = keep(api, cast.bob, parameters=[*BODY["parameters"], image], spec={**BODY["spec"], "image": "${{ parameters.image }}"})
    path = f"{PATH}/{made.data['id']}/render"

    bad = api(cast.bob).post(path, {"parameters": {"image": "a b"}}, format="json").data
    assert [problem["path"] for problem in bad["problems"]] == ["/image"]
    there = api(cast.bob).post(path, {"tenant": "vision", "queue": "nowhere"}, format="json").data
    assert [problem["path"] for problem in there["problems"]] == ["/queue"]
    assert api(cast.vera).post(path, {"tenant": "vision"}, format="json").status_code == 403


def test_a_change_is_guarded_by_the_version_and_must_fit(api, cast):
    made = keep(api, cast.bob)
    path = f"{PATH}/{made.data['id']}"
    changed = api(cast.bob).patch(path, {"title": "Newer"}, format="json", HTTP_IF_MATCH=made["ETag"])
    assert (changed.status_code, changed.data["title"], changed.data["version"]) == (200, "Newer", 2)
    assert api(cast.bob).patch(path, {"title": "x"}, format="json", HTTP_IF_MATCH=made["ETag"]).status_code == 412
    refused = api(cast.bob).patch(path, {"parameters": []}, format="json")
    assert {field["path"] for field in refused.json()["fields"]} == {"/spec/command", "/spec/resources/cpu"}


def test_an_operator_publishes_and_then_everybody_sees_it_without_its_author(api, cast):
    made = keep(api, cast.bob).data
    path = f"{PATH}/{made['id']}"
    assert api(cast.alice).post(f"{path}/publish").status_code == 403
    published = api(cast.otto).post(f"{path}/publish")
    assert published.status_code == 200, published.data
    shown = api(cast.carol).get(path).data
    assert (shown["public"], shown["tenant"], shown["owner"], shown["may_edit"]) == (True, None, None, False)
    assert api(cast.bob).delete(path).status_code == 403
    assert api(cast.otto).post(f"{path}/publish").status_code == 409
    assert keep(api, cast.alice, public=True, name="own").status_code == 403
    assert keep(api, cast.otto, public=True, name="own").data["tenant"] is None
    assert api(cast.otto).delete(path).status_code == 204


def test_the_list_is_found_by_words_tags_and_tenant(api, cast):
    keep(api, cast.bob)
    keep(api, cast.bob, name="other", title="Something else", title_zh="", tags=["text"])
    keep(api, cast.otto, name="open", public=True)

    def names(**query):
        return sorted(row["name"] for row in api(cast.bob).get(PATH, query).data["items"])

    assert names() == ["open", "other", "train"]
    assert names(q="训练") == ["open", "train"]
    assert names(q="SOME else") == ["other"]
    assert names(tag="text") == ["other"]
    assert names(public="false") == ["other", "train"]
    assert names(tenant="vision", tag=["vision"]) == ["open", "train"]


@pytest.mark.capability("107", "Templates have parameters, which are filled in as data and checked like any job")
def test_the_shipped_ones_are_made_once_and_each_is_a_job(api, cast):
    assert ensure_shipped_templates(now()) == len(SHIPPED)
    assert ensure_shipped_templates(now()) == 0
    for row in Template.objects.filter(is_shipped=True):
        filled = api(cast.bob).post(f"{PATH}/{row.pk}/render", {"tenant": "vision"}, format="json")
        assert filled.status_code == 200, filled.data
        assert not [problem for problem in filled.data["problems"] if "gpu" not in problem["message"].lower()], row.name


def test_shipped_ones_that_operators_delete_stay_deleted(api, cast):
    ensure_shipped_templates(now())
    for row in Template.objects.filter(is_shipped=True):
        assert api(cast.otto).delete(f"{PATH}/{row.pk}").status_code == 204
    assert ensure_shipped_templates(now()) == 0
    assert not Template.objects.filter(is_shipped=True).exists()


def test_an_installation_gets_what_later_releases_ship_and_nothing_twice(api, cast):
    ensure_shipped_templates(now())
    Cursor.objects.filter(name="jobs.shipped_templates").delete()  # As the release of the first set left it.
    Template.objects.exclude(name="hello").delete()
    assert ensure_shipped_templates(now()) == len(LATER)
    assert set(Template.objects.values_list("name", flat=True)) == {"hello", *LATER}
    Template.objects.all().delete()
    assert ensure_shipped_templates(now()) == 0


def test_a_page_of_them_costs_the_same_however_many(api, cast, django_assert_max_num_queries):
    for number in range(6):
        keep(api, cast.bob, name=f"train-{number}")
    api(cast.bob).get(PATH)
    with django_assert_max_num_queries(5):
        assert len(api(cast.bob).get(PATH).data["items"]) == 6


# --- Test runs -------------------------------------------------------------------------------------------------------


def told(api, person, template):
    return api(person).get(f"{PATH}/{template['id']}").data["test"]


@pytest.mark.capability("107", "A template shows how its last test run ended, by portal, command line and API")
def test_a_test_run_is_a_job_of_the_defaults_and_its_result_is_told_to_whoever_may_use_the_template(quay, api):
    cast = quay.cast
    made = keep(api, cast.bob).data
    assert made["test"] == {"result": "never", "at": None, "job": None}
    started = api(cast.bob).post(f"{PATH}/{made['id']}/test", {}, format="json")
    assert started.status_code == 201, started.data
    job = Job.objects.get(id=started.data["test"]["job"]["id"])
    assert (job.name, job.user_id, job.cpu_millis, job.tags) == ("train", cast.bob.user.pk, 1000, ["template-test"])
    assert started["Location"] == f"/api/v1/jobs/{job.id}"
    assert told(api, cast.vera, made)["result"] == "running"
    assert api(cast.alice).post(f"{PATH}/{made['id']}/test", {}, format="json").status_code == 409
    quay.settle()

    seen = told(api, cast.vera, made)
    assert (seen["result"], seen["job"]) == ("passed", {"id": str(job.id), "name": "train"})
    assert [row["test"]["result"] for row in api(cast.vera).get(PATH).data["items"]] == ["passed"]
    assert AuditEvent.objects.get(verb="template.test").target_id == str(job.id)


@pytest.mark.capability("107", "A template shows how its last test run ended, by portal, command line and API")
def test_a_result_is_outdated_once_the_job_would_be_another_and_not_by_a_new_title(quay, api):
    cast = quay.cast
    made = keep(api, cast.bob).data
    path = f"{PATH}/{made['id']}"
    api(cast.bob).post(f"{path}/test", {}, format="json")
    quay.settle()
    api(cast.bob).patch(path, {"title": "Another"}, format="json")
    assert told(api, cast.bob, made)["result"] == "passed"
    api(cast.bob).patch(path, {"spec": {**BODY["spec"], "env": {"A": "1"}}}, format="json")
    assert told(api, cast.bob, made)["result"] == "outdated"
    api(cast.bob).post(f"{path}/test", {}, format="json")
    quay.settle()
    assert told(api, cast.bob, made)["result"] == "passed"


def test_a_run_that_was_stopped_or_failed_has_failed(quay, api):
    cast = quay.cast
    made = keep(api, cast.bob).data
    job = api(cast.bob).post(f"{PATH}/{made['id']}/test", {}, format="json").data["test"]["job"]["id"]
    api(cast.bob).post(f"/api/v1/jobs/{job}/stop", {}, format="json")
    assert told(api, cast.bob, made)["result"] == "failed"


def test_only_who_may_change_a_template_tests_it_and_only_who_may_see_the_job_is_shown_it(quay, api):
    cast = quay.cast
    made = keep(api, cast.bob).data
    path = f"{PATH}/{made['id']}"
    assert api(cast.vera).post(f"{path}/test", {}, format="json").status_code == 403
    assert api(cast.carol).post(f"{path}/test", {}, format="json").status_code == 404
    api(cast.bob).post(f"{path}/test", {}, format="json")
    quay.settle()
    api(cast.otto).post(f"{path}/publish")
    assert told(api, cast.carol, made) | {"at": None} == {"result": "passed", "at": None, "job": None}
    assert api(cast.bob).post(f"{path}/test", {}, format="json").status_code == 403


def test_defaults_that_make_no_job_are_refused_with_the_place(quay, api):
    cast = quay.cast
    made = keep(api, cast.bob, spec={**BODY["spec"], "queue": "nowhere"}).data
    refused = api(cast.bob).post(f"{PATH}/{made['id']}/test", {}, format="json")
    assert refused.status_code in {404, 422}, refused.data
    assert told(api, cast.bob, made)["result"] == "never"


def test_results_cost_one_statement_whatever_their_number(quay, api, django_assert_num_queries):
    cast = quay.cast
    client = api(cast.bob)
    for number in range(3):
        made = keep(api, cast.bob, name=f"train-{number}").data
        client.post(f"{PATH}/{made['id']}/test", {}, format="json")
    client.get(PATH)
    with django_assert_num_queries(5):  # The facts, the list, tenants, owners, and the jobs of all.
        client.get(PATH)
