"""Volumes over HTTP: who may make, see, change, share and delete them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from activity.models import AuditEvent
from clusters.engines.interface import Abilities, Places
from clusters.models import Cluster
from clusters.services import record_inventory
from storage.services.volumes import grant_volume, remove_deleted_volumes
from tests.factories.clusters import NOW, inventory, make_cluster, node_facts
from tests.factories.storage import make_volume
from tests.factories.tenants import SYSTEM, now

pytestmark = pytest.mark.database

URL = "/api/v1/volumes"


def grant(volume, tenant, *, read_only=True):
    return grant_volume(actor=SYSTEM, volume=volume, tenant_id=tenant.pk, read_only=read_only, now=now())


def test_a_member_makes_a_volume_and_finds_it(api, cast):
    made = api(cast.bob).post(URL, {"tenant": cast.tenant.slug, "name": "digits", "size_quota_bytes": 1000}, format="json")
    assert made.status_code == 201, made.data
    assert made["ETag"] == '"1"'
    assert made["Location"] == f"{URL}/{made.data['id']}"
    assert made.data["tenant"]["slug"] == cast.tenant.slug
    assert made.data["mount_as"] == "digits"
    assert made.data["created_by"]["name"] == "bob"
    assert "location" not in made.data
    listed = api(cast.vera).get(URL, {"name": "digits"})
    assert [row["id"] for row in listed.data["items"]] == [made.data["id"]]
    assert AuditEvent.objects.filter(verb="volume.create", target_id=made.data["id"]).count() == 1


@pytest.fixture
def research():
    """A cluster with a storage class, whose nodes mount NFS from one server."""
    able = Abilities(places=Places(below=(), claims=True, makes_claims=True, shares=("nas.example",), checkpoints=True))
    cluster = make_cluster("research")
    record_inventory(cluster.pk, inventory(node_facts(), abilities=able), NOW)
    return cluster


def test_a_member_makes_a_claim_that_its_cluster_will_provide(api, cast, research):
    body = {"name": "scratch", "kind": "claim", "cluster": "research", "size_quota_bytes": 5}
    made = api(cast.bob).post(URL, body, format="json")
    assert made.status_code == 201, made.data
    assert made.data["cluster"] == {"id": str(research.pk), "name": "research"}
    assert (made.data["kind"], made.data["claim"]) == ("claim", f"volume-{made.data['id']}")
    url = f"{URL}/{made.data['id']}"
    assert api(cast.bob).patch(url, {"description": "x"}, format="json").status_code == 200
    assert api(cast.bob).patch(url, {"size_quota_bytes": 7}, format="json").json()["fields"][0]["code"] == "fixed_size"
    refused = api(cast.alice).post(f"{url}/grants", {"tenant": cast.elsewhere.slug}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "volume_of_one_tenant")


def test_where_data_is_already_is_for_operators_to_say_and_to_change(api, cast, research):
    claim = {"tenant": cast.tenant.slug, "name": "digits", "kind": "claim", "cluster": str(research.pk), "claim": "digits.v2"}
    share = {"tenant": cast.tenant.slug, "name": "home", "kind": "nfs", "server": "nas.example", "export": "/exports/home"}
    for body in (claim, share):
        assert api(cast.alice).post(URL, body, format="json").status_code == 403
        made = api(cast.otto).post(URL, {**body, "read_only": True}, format="json")
        assert made.status_code == 201, made.data
        url = f"{URL}/{made.data['id']}"
        assert api(cast.alice).patch(url, {"read_only": False}, format="json").status_code == 403
        assert api(cast.otto).patch(url, {"read_only": False}, format="json").status_code == 200
        assert api(cast.bob).delete(url).status_code == 403
        assert api(cast.otto).delete(url).status_code == 204
    assert (made.data["server"], made.data["export"], made.data["cluster"]) == ("nas.example", "/exports/home", None)


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"kind": "local", "server": "nas.example"}, "/server", "not_of_kind"),
        ({"kind": "claim"}, "/cluster", "required"),
        ({"kind": "claim", "cluster": "nowhere"}, "/cluster", "not_found"),
        ({"kind": "claim", "cluster": "plain"}, "/cluster", "no_claims"),
        ({"kind": "claim", "cluster": "poor"}, "/cluster", "no_storage_class"),
        ({"kind": "claim", "cluster": "research", "claim": "No Name"}, "/claim", "bad_name"),
        ({"kind": "claim", "cluster": "research", "claim": "shared-0123"}, "/claim", "reserved"),
        ({"kind": "claim", "cluster": "research", "claim": "x", "size_quota_bytes": 1}, "/size_quota_bytes", "fixed_size"),
        ({"kind": "nfs", "server": "evil.example", "export": "/x"}, "/server", "not_mounted"),
        ({"kind": "nfs", "server": "nas.example", "export": "/x/../y"}, "/export", "bad_path"),
    ],
)
def test_a_place_that_cannot_be_is_refused_with_its_field(api, cast, research, body, path, code):
    record_inventory(make_cluster("plain").pk, inventory(node_facts()), NOW)
    record_inventory(make_cluster("poor").pk, inventory(node_facts(), abilities=Abilities(places=Places((), claims=True))), NOW)
    client = api(cast.bob if not {"claim", "server"} & body.keys() else cast.otto)
    answer = client.post(URL, {"tenant": cast.tenant.slug, "name": "x", **body}, format="json")
    if body["kind"] == "local":
        answer = api(cast.bob).post(URL, {"name": "x", **body}, format="json")
    assert answer.status_code == 422, answer.data
    assert (path, code) in [(field["path"], field["code"]) for field in answer.json()["fields"]]


def test_the_platform_says_that_it_does_not_see_the_files_of_a_claim(api, cast, research):
    made = api(cast.bob).post(URL, {"name": "scratch", "kind": "claim", "cluster": "research"}, format="json").data
    url = f"{URL}/{made['id']}"
    upload = {"target": {"volume": "scratch", "path": "x"}, "size_bytes": 3, "sha256": "0" * 64}
    for answer in (
        api(cast.bob).get(f"{url}/files"),
        api(cast.bob).get(f"{url}/content?path=x"),
        api(cast.bob).delete(f"{url}/content?path=x"),
        api(cast.bob).post("/api/v1/uploads", upload, format="json"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "volume_not_on_host")
        assert "mounts" in answer.json()["hint"]


def test_a_cluster_is_not_removed_while_volumes_are_claims_there(api, cast, research):
    made = api(cast.bob).post(URL, {"name": "scratch", "kind": "claim", "cluster": "research"}, format="json").data
    url = f"/api/v1/clusters/{research.pk}"
    Cluster.objects.filter(pk=research.pk).update(is_enabled=False)
    refused = api(cast.otto).delete(url)
    assert refused.status_code == 409, refused.data
    assert "scratch" in str(refused.json())
    api(cast.bob).delete(f"{URL}/{made['id']}")
    assert remove_deleted_volumes(now=now() + timedelta(days=2), in_use=()) == 1, "nothing of it is on the host"
    assert api(cast.otto).delete(url).status_code == 204


def test_the_tenant_may_be_left_out_by_whoever_has_one(api, cast):
    assert api(cast.bob).post(URL, {"name": "mine"}, format="json").data["tenant"]["slug"] == cast.tenant.slug


def test_a_repeated_request_makes_one_volume(api, cast):
    client = api(cast.bob)
    first = client.post(URL, {"name": "once"}, format="json", headers={"Idempotency-Key": "k1"})
    again = client.post(URL, {"name": "once"}, format="json", headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]


def test_all_mistakes_are_told_at_once(api, cast):
    refused = api(cast.bob).post(URL, {"nmae": "x", "size_quota_bytes": -1, "read_only": "perhaps"}, format="json")
    assert refused.status_code == 422
    assert {field["path"] for field in refused.json()["fields"]} == {"/nmae", "/name", "/size_quota_bytes", "/read_only"}


def test_a_viewer_may_not_make_and_an_outsider_not_know(api, cast):
    assert api(cast.vera).post(URL, {"tenant": cast.tenant.slug, "name": "x"}, format="json").status_code == 403
    assert api(cast.carol).post(URL, {"tenant": cast.tenant.slug, "name": "x"}, format="json").status_code == 404
    assert api(cast.otto).post(URL, {"tenant": cast.tenant.slug, "name": "x"}, format="json").status_code == 403


def test_a_volume_of_others_does_not_exist(api, cast):
    volume = make_volume(cast.tenant, "private")
    for method in ("get", "patch", "delete"):
        assert getattr(api(cast.carol), method)(f"{URL}/{volume.id}").status_code == 404
    assert api(cast.carol).get(URL).data["items"] == []
    assert api().get(URL).status_code == 401


def test_volumes_are_found_by_a_part_of_the_name(api, cast):
    for name in ("digits-2026", "digits-2027", "speech"):
        make_volume(cast.tenant, name)
    found = api(cast.bob).get(URL, {"q": "DIGITS-"}).data["items"]
    assert [row["name"] for row in found] == ["digits-2027", "digits-2026"]
    assert api(cast.carol).get(URL, {"q": "digits"}).data["items"] == []


def test_a_change_needs_the_present_version(api, cast):
    volume = make_volume(cast.tenant)
    url = f"{URL}/{volume.id}"
    changed = api(cast.alice).patch(url, {"description": "new"}, format="json", headers={"If-Match": '"1"'})
    assert (changed.status_code, changed["ETag"], changed.data["description"]) == (200, '"2"', "new")
    assert api(cast.alice).patch(url, {"description": "x"}, format="json", headers={"If-Match": '"1"'}).status_code == 412
    assert api(cast.alice).patch(url, {"tenant": "x"}, format="json").status_code == 422
    assert api(cast.bob).patch(url, {"description": "x"}, format="json").status_code == 403


def test_whoever_made_a_volume_may_delete_it(api, cast):
    made = api(cast.bob).post(URL, {"name": "mine"}, format="json").data["id"]
    other = make_volume(cast.tenant, "others")
    assert api(cast.bob).delete(f"{URL}/{made}").status_code == 204
    assert api(cast.bob).get(f"{URL}/{made}").status_code == 404
    assert api(cast.bob).delete(f"{URL}/{other.id}").status_code == 403
    assert api(cast.alice).delete(f"{URL}/{other.id}").status_code == 204


def test_a_manager_lets_another_tenant_mount(api, cast):
    volume = make_volume(cast.tenant, "shared")
    url = f"{URL}/{volume.id}/grants"
    made = api(cast.alice).post(url, {"tenant": cast.elsewhere.slug}, format="json")
    assert made.status_code == 201, made.data
    assert made.data["read_only"] is True
    seen = api(cast.carol).get(f"{URL}/{volume.id}").data
    assert (seen["is_granted"], seen["read_only"], seen["mount_as"]) == (True, True, f"{cast.tenant.slug}/shared")
    assert seen["created_by"] is None
    assert [row["id"] for row in api(cast.carol).get(URL, {"tenant": cast.elsewhere.slug}).data["items"]] == [str(volume.id)]
    assert api(cast.carol).patch(f"{URL}/{volume.id}", {"description": "x"}, format="json").status_code == 403
    assert api(cast.carol).delete(f"{url}/{made.data['id']}").status_code == 403
    assert api(cast.alice).delete(f"{url}/{made.data['id']}").status_code == 204
    assert api(cast.carol).get(f"{URL}/{volume.id}").status_code == 404
    assert api(cast.alice).delete(f"{url}/{made.data['id']}").status_code == 404


def test_granting_again_changes_the_grant(api, cast):
    volume = make_volume(cast.tenant, "shared")
    url = f"{URL}/{volume.id}/grants"
    first = api(cast.alice).post(url, {"tenant": cast.elsewhere.slug}, format="json").data
    second = api(cast.alice).post(url, {"tenant": cast.elsewhere.slug, "read_only": False}, format="json").data
    assert (first["id"], second["read_only"]) == (second["id"], False)
    assert len(api(cast.alice).get(f"{URL}/{volume.id}").data["grants"]) == 1


def test_a_tenant_that_one_does_not_see_is_granted_to_by_slug_only(api, cast):
    url = f"{URL}/{make_volume(cast.tenant).id}/grants"
    by_name = api(cast.alice).post(url, {"tenant": cast.elsewhere.name}, format="json")
    absent = api(cast.alice).post(url, {"tenant": "nobody"}, format="json")
    by_id = api(cast.alice).post(url, {"tenant": str(cast.elsewhere.pk)}, format="json")
    assert (by_name.status_code, absent.status_code, by_id.status_code) == (404, 404, 404)
    assert api(cast.alice).post(url, {"tenant": cast.tenant.slug}, format="json").status_code == 422
    assert api(cast.bob).post(url, {"tenant": cast.elsewhere.slug}, format="json").status_code == 403


def test_a_grant_belongs_to_the_volume_in_the_path(api, cast):
    mine, theirs = make_volume(cast.tenant), make_volume(cast.elsewhere)
    given = grant(theirs, cast.tenant)
    assert api(cast.alice).delete(f"{URL}/{mine.id}/grants/{given.id}").status_code == 404
    assert api(cast.alice).delete(f"{URL}/{theirs.id}/grants/{given.id}").status_code == 403


def test_the_list_costs_the_same_for_many_volumes(api, cast, django_assert_max_num_queries):
    for number in range(12):
        grant(make_volume(cast.tenant, f"v{number}"), cast.elsewhere)
    client = api(cast.alice)
    client.get(URL)
    with django_assert_max_num_queries(9):
        assert len(client.get(URL, {"limit": 12}).data["items"]) == 12


def test_pages_follow_each_other(api, cast):
    made = [str(make_volume(cast.tenant, f"v{number}").id) for number in range(5)]
    first = api(cast.vera).get(URL, {"limit": 3}).data
    second = api(cast.vera).get(URL, {"limit": 3, "cursor": first["next"]}).data
    assert [row["id"] for row in [*first["items"], *second["items"]]] == made[::-1]
    assert second["next"] is None
    assert api(cast.vera).get(URL, {"nmae": "x"}).status_code == 422
