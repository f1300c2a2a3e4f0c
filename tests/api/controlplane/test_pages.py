"""The pages outside the API: the way in, and the meaning of every code."""

from __future__ import annotations

from typing import Any

from webapi.reference import REFERENCE


def test_without_a_portal_the_root_leads_to_the_description_of_the_api(api: Any) -> None:
    response = api().get("/")
    assert (response.status_code, response["Location"]) == (302, "/api/v1/docs")


def test_the_type_of_every_problem_leads_to_its_explanation(api: Any) -> None:
    page = api().get("/docs/errors")
    assert page.status_code == 200
    assert "default-src 'none'" in page["Content-Security-Policy"]
    text = page.content.decode()
    missing = [code for code in REFERENCE if code != "error" and f'<section id="{code}">' not in text]
    assert not missing


def test_pages_only_show(api: Any) -> None:
    assert api().post("/docs/errors").status_code == 405
