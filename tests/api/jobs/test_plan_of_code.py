"""The plan of a job whose code comes from Git says that a job of its own fetches it first."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.quay import Quay

pytestmark = pytest.mark.database


def plan(quay: Quay, api: Callable[..., Any], **code: str) -> Any:
    body = json.dumps({"spec": {"name": "train", "command": "true", **({"code": code} if code else {})}})
    answer = api(quay.cast.bob).post("/api/v1/jobs?dry_run=true", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()["fetches"]


def test_the_plan_names_what_is_fetched_first_and_by_which_job(quay: Quay, api: Callable[..., Any]) -> None:
    address = "https://git.example.org/vision/nets.git"

    assert plan(quay, api, git=address, ref="release/2") == {"job": "fetch-nets", "git": address, "ref": "release/2"}
    assert plan(quay, api, git=address) == {"job": "fetch-nets", "git": address, "ref": "HEAD"}
    assert plan(quay, api) is None
