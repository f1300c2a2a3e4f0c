"""The portal's document: who gets it, under which policy, and what stays an answer of the API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from controlplane import portal

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def built(tmp_path: Path, settings: Any) -> Any:
    """A portal as `tools/portal.py` leaves one."""
    (tmp_path / "index.html").write_text(
        '<!doctype html><html><head><script src="/assets/a.js"></script></head><body></body></html>'
    )
    settings.PORTAL = tmp_path
    portal._document.cache_clear()
    yield
    portal._document.cache_clear()


@pytest.mark.capability("53", "Every page is served under a strict content security policy, without inline script")
def test_every_page_is_the_same_document_under_a_strict_policy(api: Any, built: None) -> None:
    nonces = set()
    for path in ("/", "/jobs", "/jobs/01a2/logs", "/nowhere"):
        page = api().get(path, headers={"Accept": BROWSER})
        assert (page.status_code, page["Content-Type"]) == (200, "text/html; charset=utf-8")
        policy, text = page["Content-Security-Policy"], page.content.decode()
        [nonce] = re.findall(r'<meta name="csp-nonce" content="([\w-]{20,})">', text)
        nonces.add(nonce)
        assert f"style-src 'self' 'nonce-{nonce}'" in policy
        assert "unsafe" not in policy
        assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy.split("; "))
        assert page["Cache-Control"] == "no-cache"
    assert len(nonces) == 4


@pytest.mark.parametrize(
    "path", ["/api/v1/nowhere", "/api/nowhere", "/docs/nowhere", "/assets/gone-12345678.js", "/ws/v1/nowhere"]
)
def test_what_is_no_page_stays_a_problem(api: Any, built: None, path: str) -> None:
    answer = api().get(path, headers={"Accept": BROWSER})
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")


def test_a_program_that_errs_is_told_so_in_json(api: Any, built: None) -> None:
    answer = api().get("/jobs", headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_pages_take_no_other_verb(api: Any, built: None) -> None:
    assert api().post("/jobs", headers={"Accept": BROWSER}).status_code == 405


def test_without_a_built_portal_there_is_no_page(api: Any, tmp_path: Path, settings: Any) -> None:
    settings.PORTAL = tmp_path / "none"
    portal._document.cache_clear()
    assert api().get("/jobs", headers={"Accept": BROWSER}).status_code == 404
    assert api().get("/", headers={"Accept": BROWSER})["Location"] == "/api/v1/docs"
    portal._document.cache_clear()
