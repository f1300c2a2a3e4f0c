"""The image catalogue over HTTP: who may add, see, build again and delete."""

from __future__ import annotations

import pytest

from images import pinning
from images.models import Image
from images.services import build_finished, build_started
from kernel.ids import new_id
from tests.factories.images import make_image, make_ready_image, make_registry_image, request_of
from tests.factories.tenants import now

pytestmark = pytest.mark.database

URL = "/api/v1/images"


def test_a_member_adds_an_environment_and_sees_its_build(api, cast):
    body = {"tenant": cast.tenant.slug, "name": "jax-cpu", "kind": "python", "requirements": "jax\nnumpy\n", "reference": None}
    made = api(cast.bob).post(URL, body, format="json")
    assert made.status_code == 201, made.data
    assert (made.data["state"], made.data["pinned"], made.data["created_by"]["name"]) == ("queued", True, "bob")
    assert "location" not in made.data
    (build,) = api(cast.vera).get(f"{URL}/{made.data['id']}/builds").data["items"]
    assert (build["state"], build["job_id"], build["requested_by"]["name"]) == ("queued", None, "bob")


def test_every_bad_line_is_told(api, cast):
    body = {"name": "env", "kind": "python", "requirements": "-e .\nnumpy\nfile:///etc/passwd"}
    refused = api(cast.bob).post(URL, body, format="json")
    assert refused.status_code == 422
    assert [field["path"] for field in refused.json()["fields"]] == ["/requirements/1", "/requirements/3"]
    unknown = api(cast.bob).post(URL, {"name": "x", "kind": "vm", "extra": 1}, format="json")
    assert {field["path"] for field in unknown.json()["fields"]} == {"/kind", "/extra"}


def test_a_reference_is_stored_in_full(api, cast):
    body = {"name": "train", "kind": "registry", "reference": "team/train:1.2"}
    made = api(cast.bob).post(URL, body, format="json")
    assert made.status_code == 201, made.data
    assert (made.data["reference"], made.data["pinned"], made.data["state"]) == ("docker.io/team/train:1.2", False, "ready")


def test_a_member_has_a_container_image_built(api, cast, monkeypatch):
    monkeypatch.setattr(pinning, "missing_packages", tuple)
    body = {"name": "train", "kind": "registry", "reference": "registry.example.org/a/b:1", "containerfile": "FROM scratch\n"}
    made = api(cast.bob).post(URL, {**body, "context_sha256": "c" * 64}, format="json")
    assert made.status_code == 201, made.data
    assert (made.data["state"], made.data["digest"], made.data["context_sha256"]) == ("queued", None, "c" * 64)
    assert (made.data["containerfile"], made.data["base"]) == ("FROM scratch\n", None)
    (build,) = api(cast.vera).get(f"{URL}/{made.data['id']}/builds").data["items"]
    assert build["state"] == "queued"
    assert api(cast.vera).post(URL, body, format="json").status_code == 403
    for wrong in ({"context_sha256": "C" * 64}, {"context_sha256": "../" * 20}, {"containerfile": "FROM $X"}, {"base": "python"}):
        refused = api(cast.bob).post(URL, {**body, "name": "other", **wrong}, format="json")
        assert refused.status_code == 422, wrong
    assert api(cast.bob).post(f"{URL}/{made.data['id']}/builds").status_code == 409


def test_a_machine_that_builds_no_container_images_says_so(api, cast, monkeypatch):
    monkeypatch.setattr(pinning, "missing_packages", lambda: ("buildah",))
    body = {"name": "train", "kind": "registry", "reference": "registry.example.org/a/b:1", "containerfile": "FROM scratch\n"}
    refused = api(cast.bob).post(URL, body, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "builder_missing")
    assert "apt-get install buildah" in refused.json()["hint"]
    assert api(cast.bob).post(URL, {**body, "containerfile": None}, format="json").status_code == 201


def test_images_for_all_are_the_operators(api, cast):
    body = {"shared": True, "name": "base", "kind": "registry", "reference": "team/base"}
    assert api(cast.alice).post(URL, body, format="json").status_code == 403
    made = api(cast.otto).post(URL, body, format="json")
    assert made.status_code == 201, made.data
    assert made.data["tenant"] is None
    assert api(cast.carol).get(f"{URL}/{made.data['id']}").status_code == 200
    assert api(cast.alice).delete(f"{URL}/{made.data['id']}").status_code == 403
    assert api(cast.otto).delete(f"{URL}/{made.data['id']}").status_code == 204
    python = {"shared": True, "name": "py", "kind": "python", "requirements": "numpy"}
    assert api(cast.otto).post(URL, python, format="json").status_code == 422


def test_a_viewer_may_not_add_and_an_outsider_not_know(api, cast):
    body = {"tenant": cast.tenant.slug, "name": "x", "kind": "registry", "reference": "a/b"}
    assert api(cast.vera).post(URL, body, format="json").status_code == 403
    assert api(cast.carol).post(URL, body, format="json").status_code == 404
    assert api(cast.otto).post(URL, body, format="json").status_code == 403
    assert api().post(URL, body, format="json").status_code == 401


def test_images_of_others_do_not_exist(api, cast):
    image = make_image(cast.tenant)
    for method, path in (("get", ""), ("delete", ""), ("get", "/builds"), ("post", "/builds")):
        assert getattr(api(cast.carol), method)(f"{URL}/{image.id}{path}").status_code == 404
    assert [row["name"] for row in api(cast.carol).get(URL).data["items"]] == ["host"]


def test_one_image_shows_its_packages_and_the_list_does_not(api, cast):
    image = make_ready_image(cast.tenant)
    answer = api(cast.vera).get(f"{URL}/{image.id}")
    assert answer.data["packages"] == [{"name": "numpy", "version": "2.4.6"}]
    assert answer["ETag"] == f'"{image.version}"'
    assert all("packages" not in row for row in api(cast.vera).get(URL).data["items"])


def test_the_list_is_filtered(api, cast):
    make_ready_image(cast.tenant, "built")
    make_image(cast.tenant, "waiting", requirements="scipy")
    make_registry_image(cast.tenant, "pulled")
    client = api(cast.vera)

    def names(**query):
        return {row["name"] for row in client.get(URL, query).data["items"]}

    assert names() == {"host", "built", "waiting", "pulled"}
    assert names(kind="python") == {"built", "waiting"}
    assert names(state="queued") == {"waiting"}
    assert names(name="pulled") == {"pulled"}
    assert names(q="PULL") == {"pulled"}
    assert names(tenant=cast.tenant.slug) == {"host", "built", "waiting", "pulled"}
    assert client.get(URL, {"kind": "vm"}).status_code == 422
    assert client.get(URL, {"tenant": cast.elsewhere.slug}).status_code == 404


def test_a_failed_image_is_built_again_by_its_maker(api, cast):
    made = api(cast.bob).post(URL, {"name": "env", "kind": "python", "requirements": "numpy"}, format="json").data
    url = f"{URL}/{made['id']}/builds"
    assert api(cast.bob).post(url).status_code == 409
    image = Image.objects.get(id=made["id"])
    build_started(request_of(image), job_id=new_id(), now=now())
    build_finished(image.build_requests.get().id, succeeded=False, reason="no such package", now=now())
    assert api(cast.bob).get(f"{URL}/{made['id']}").data["error"] == "no such package"
    assert api(cast.vera).post(url).status_code == 403
    again = api(cast.bob).post(url)
    assert again.status_code == 201, again.data
    assert [row["state"] for row in api(cast.bob).get(url).data["items"]] == ["queued", "failed"]


def test_whoever_added_an_image_may_delete_it(api, cast):
    mine = api(cast.bob).post(URL, {"name": "a", "kind": "registry", "reference": "a/b"}, format="json").data["id"]
    other = make_registry_image(cast.tenant, "b")
    assert api(cast.bob).delete(f"{URL}/{mine}").status_code == 204
    assert api(cast.bob).get(f"{URL}/{mine}").status_code == 404
    assert api(cast.bob).delete(f"{URL}/{other.id}").status_code == 403
    assert api(cast.alice).delete(f"{URL}/{other.id}").status_code == 204


def test_a_repeated_request_adds_one_image(api, cast):
    body = {"name": "once", "kind": "python", "requirements": "numpy"}
    answers = [api(cast.bob).post(URL, body, format="json", headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert answers[0].json()["id"] == answers[1].json()["id"]


def test_the_list_costs_the_same_for_many_images(api, cast, django_assert_max_num_queries):
    for number in range(10):
        make_registry_image(cast.tenant, f"i{number}")
    client = api(cast.vera)
    client.get(URL)
    with django_assert_max_num_queries(7):
        assert len(client.get(URL).data["items"]) == 11
