"""What is locked, judged without asking anybody: no version with a hole that this page knows, nothing that need not be there.

`make audit` asks those who know of newer ones.
"""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import ROOT

# Package -> the first version without the holes named behind it. Not a list of all holes: those of libraries like ours.
FLOORS = {
    "celery": ("5.2.2", "CVE-2021-23727"),
    "channels": ("3.0.3", "CVE-2020-35681"),
    "cryptography": ("42.0.4", "CVE-2024-26130"),
    "django": ("4.2.26", "CVE-2025-64459"),
    "djangorestframework": ("3.15.2", "CVE-2024-21520"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "idna": ("3.7", "CVE-2024-3651"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "redis": ("4.5.5", "CVE-2023-28859"),
    "requests": ("2.32.4", "CVE-2024-47081"),
    "sqlparse": ("0.5.0", "CVE-2024-4340"),
    "urllib3": ("2.5.0", "CVE-2025-50181"),
    "werkzeug": ("3.0.6", "CVE-2024-49767"),
}
NOT_SHIPPED = {"flower", "django-celery-results", "django-celery-beat", "jinja2", "python-jose", "pyjwt", "dill", "cloudpickle"}
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-audit.lock", "requirements-ldap.lock")


def locked(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==([0-9][^ ;\\]*)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version)[:4])


@pytest.mark.parametrize("lock", LOCKS)
def test_no_version_with_a_known_hole_is_locked(lock: str) -> None:
    found = locked(lock)

    assert found
    assert not [
        f"{name} {found[name]} has {hole}"
        for name, (floor, hole) in FLOORS.items()
        if name in found and numbers(found[name]) < numbers(floor)
    ]


def test_what_others_were_broken_through_is_not_shipped() -> None:
    assert not NOT_SHIPPED & set(locked("requirements.lock"))
