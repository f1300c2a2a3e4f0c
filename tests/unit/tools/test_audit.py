"""`make audit` tells a pass from a question that nobody answered."""

from __future__ import annotations

import json
from datetime import date, timedelta
from email.message import Message

import pytest

from tools import audit
from tools.audit import Report


def package(name: str, **facts: object) -> dict[str, object]:
    return {"name": name, "version": "1.0", **facts}


def test_a_known_hole_is_a_finding_with_the_version_that_mends_it() -> None:
    report = Report()
    hole = {"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fix_versions": ["1.1"]}
    audit.judge_python("x.lock", {"dependencies": [package("a", vulns=[hole]), package("b", vulns=[])]}, "", report)

    assert report.holes == ["x.lock: a 1.0: PYSEC-1, mended in 1.1"]
    assert report.made == ["x.lock: 2 packages"]


def test_packages_that_nobody_knew_are_no_pass() -> None:
    report = Report()
    audit.judge_python("x.lock", {"dependencies": [package("a", skip_reason="not found"), package("b", vulns=[])]}, "", report)
    audit.judge_python("y.lock", {"dependencies": [package("a", skip_reason="not found")]}, "", report)
    audit.judge_python("z.lock", None, "no answer", report)

    assert report.made == ["x.lock: 1 packages"]
    assert [line.partition(":")[0] for line in report.not_made] == ["x.lock", "y.lock", "z.lock"]


def test_an_accepted_advisory_counts_again_after_its_day(monkeypatch: pytest.MonkeyPatch) -> None:
    hole = {"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fix_versions": []}
    document = {"dependencies": [package("a", vulns=[hole])]}
    monkeypatch.setattr(audit, "ACCEPTED", {"CVE-2026-1": ("Not reached.", date.today())})
    today = Report()
    audit.judge_python("x.lock", document, "", today)
    monkeypatch.setattr(audit, "ACCEPTED", {"CVE-2026-1": ("Not reached.", date.today() - timedelta(days=1))})
    late = Report()
    audit.judge_python("x.lock", document, "", late)

    assert not today.holes
    assert late.holes


def test_npm_without_its_registry_is_no_pass_and_a_high_finding_is_one() -> None:
    report = Report()
    audit.judge_javascript("a/package-lock.json", json.dumps({"error": {"summary": "request failed"}}), report)
    audit.judge_javascript("b/package-lock.json", "no json", report)
    found = {"vulnerabilities": {"x": {"severity": "high", "range": "<2"}, "y": {"severity": "low"}}}
    audit.judge_javascript("c/package-lock.json", json.dumps(found), report)

    assert len(report.not_made) == 2
    assert report.holes == ["c/package-lock.json: x <2: high"]


@pytest.mark.parametrize(
    ("lines", "is_free"),
    [
        ({"License-Expression": "MIT"}, True),
        ({"License-Expression": "LGPL-3.0-only"}, True),
        ({"Classifier": "License :: OSI Approved :: BSD License"}, True),
        ({"License": "Apache 2\nand a long text about the GPL"}, True),
        ({"License-Expression": "GPL-3.0-or-later"}, False),
        ({"Classifier": "License :: OSI Approved :: GNU Affero General Public License v3"}, False),
        ({}, False),
    ],
)
def test_licences_are_read_wherever_they_stand(lines: dict[str, str], is_free: bool) -> None:
    stated = Message()
    for name, value in lines.items():
        stated[name] = value
    licence = audit.licence_of(stated)

    assert bool(audit.FREE.search(licence) and not audit.BINDING.search(licence)) == is_free


def test_the_server_depends_on_nothing_that_binds_it() -> None:
    report = Report()
    audit.audit_licences(report)

    assert not report.holes


def test_what_could_not_be_looked_at_is_named_last_and_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cannot_install() -> None:
        raise OSError("no network")

    monkeypatch.setattr(audit, "install_pip_audit", cannot_install)

    assert audit.main([]) == 3
    assert capsys.readouterr().out.splitlines()[-1].startswith("audit: not looked at: requirements.lock; ")
