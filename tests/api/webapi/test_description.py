"""The API describes itself."""

import re

import pytest

from webapi.schema import operation_id, tag_of

pytestmark = pytest.mark.database


@pytest.mark.parametrize(
    ("method", "path", "has_list", "name"),
    [
        ("GET", "/api/v1/jobs", True, "jobs_list"),
        ("POST", "/api/v1/jobs", True, "jobs_create"),
        ("POST", "/api/v1/jobs:batch", False, "jobs_batch"),
        ("GET", "/api/v1/jobs/{job}", True, "jobs_get"),
        ("PATCH", "/api/v1/jobs/{job}", True, "jobs_update"),
        ("POST", "/api/v1/jobs/{job}/stop", False, "jobs_stop"),
        ("GET", "/api/v1/jobs/{job}/spec", True, "jobs_spec_get"),
        ("GET", "/api/v1/jobs/{job}/logs", True, "jobs_logs_list"),
        ("GET", "/api/v1/jobs/{job}/logs/stream", True, "jobs_logs_stream_get"),
        ("PUT", "/api/v1/jobs/{job}/tags/{tag}", False, "jobs_tags_put"),
        ("POST", "/api/v1/tenants/{tenant}/members", True, "tenants_members_create"),
        ("DELETE", "/api/v1/tenants/{tenant}/members/{user_id}", False, "tenants_members_delete"),
        ("POST", "/api/v1/tickets", False, "tickets_create"),
        ("GET", "/api/v1/whoami", True, "whoami_get"),
        ("GET", "/livez", True, "livez_get"),
    ],
)
def test_an_operation_is_named_by_its_path_and_method(method, path, has_list, name):
    assert operation_id(method, path, has_list=has_list) == name
    assert tag_of(path) == name.partition("_")[0]


def test_the_server_says_what_it_is(nobody):
    body = nobody.get("/api/v1/info").json()

    assert set(body) == {"name", "version", "time_zone", "now", "profile", "url", "features"}
    assert body["name"] == "berth"
    assert body["now"].endswith("Z")


def test_the_page_of_the_description_loads_everything_from_this_host(nobody):
    response = nobody.get("/api/v1/docs")

    text = response.content.decode()
    assert "<script>" not in text
    assert "http://" not in text
    assert "https://" not in text
    assert "script-src 'self';" in response["Content-Security-Policy"]
    assert nobody.get("/api/v1/docs.js").content.startswith(b"window.ui")


def test_the_assets_of_the_page_are_there(nobody):
    page = nobody.get("/api/v1/docs").content.decode()

    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(addresses) == 3
    for address in addresses:
        response = nobody.get(address)
        assert response.status_code == 200, address
        assert b"".join(response.streaming_content)
        response.close()
